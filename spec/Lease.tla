------------------------------- MODULE Lease -------------------------------
(***************************************************************************)
(* What Marshal promises, without saying how: a lease with fencing epochs. *)
(*                                                                         *)
(* At any time at most one instance owns the claim.  Every grant has an    *)
(* epoch above all earlier ones, so a process that is to obey an owner can *)
(* tell a late one by its number.  The position moves forward, unless an   *)
(* administrator sets it.                                                  *)
(*                                                                         *)
(* There is no log here, no heartbeat, no time and no reader.              *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    Instances,   \* who may own
    Admins,      \* who may set the position
    Nobody       \* the owner of a free claim

VARIABLES owner, epoch, position

vars == <<owner, epoch, position>>

Init ==
    /\ owner = Nobody
    /\ epoch = -1
    /\ position = 0

\* Also to the owner itself, and also when somebody owns: when an owner may be
\* displaced is the protocol's business.  A grant may carry the position of the
\* predecessor's last message with it (rule R9).
Grant ==
    /\ owner' \in Instances
    /\ epoch' > epoch
    /\ position' >= position

Advance ==
    /\ owner # Nobody
    /\ position' > position
    /\ UNCHANGED <<owner, epoch>>

Free ==
    /\ owner # Nobody
    /\ owner' = Nobody
    /\ position' >= position
    /\ UNCHANGED epoch

Set ==
    /\ owner \in Admins
    /\ owner' = Nobody
    /\ position' >= 0
    /\ UNCHANGED epoch

Next == Grant \/ Advance \/ Free \/ Set

Spec == Init /\ [][Next]_vars

=============================================================================
