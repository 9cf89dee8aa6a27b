------------------------------- MODULE Lists -------------------------------
(***************************************************************************)
(* The four operators on sequences that the specification uses, under      *)
(* names that leave `Append` to the broker.                                *)
(***************************************************************************)
LOCAL INSTANCE Sequences

Length(list)     == Len(list)
First(list)      == Head(list)
Rest(list)       == Tail(list)
With(list, item) == Append(list, item)

=============================================================================
