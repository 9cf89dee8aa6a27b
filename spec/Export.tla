------------------------------ MODULE Export -------------------------------
(***************************************************************************)
(* The operator by which a model exports values to the conformance tests.  *)
(* Run by TLC alone it does nothing.  The package overrides it with a Java *)
(* operator that writes one value a line, so a model calls it from an      *)
(* ACTION_CONSTRAINT: once for each edge.                                  *)
(***************************************************************************)
Export(value) == TRUE

(***************************************************************************)
(* TRUE the first time that it is asked about a value, and FALSE after     *)
(* that.  What a row says of a state follows from the state, so a model    *)
(* that asks first works it out once, not at every edge.                   *)
(***************************************************************************)
FirstTime(value) == TRUE
=============================================================================
