------------------------------- MODULE Lists -------------------------------
(***************************************************************************)
(* The operators on sequences that the specification uses, under names    *)
(* that leave `Append` to the broker.                                      *)
(***************************************************************************)
LOCAL INSTANCE Sequences
LOCAL INSTANCE Integers

Length(list)     == Len(list)
First(list)      == Head(list)
Rest(list)       == Tail(list)
With(list, item) == Append(list, item)
WithAll(list, more) == list \o more
FirstOf(list, n) == SubSeq(list, 1, n)
LastOf(list, n)  == SubSeq(list, Len(list) - n + 1, Len(list))
SelectFrom(list, Is(_)) == SelectSeq(list, Is)
Without(list, k) == SubSeq(list, 1, k - 1) \o SubSeq(list, k + 1, Len(list))

=============================================================================
