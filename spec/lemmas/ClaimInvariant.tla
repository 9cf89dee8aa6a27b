--------------------------- MODULE ClaimInvariant ---------------------------
(***************************************************************************)
(* What holds of a claim before its first record, and after each record.   *)
(*                                                                         *)
(* `make prove` assumes it of the claim before a record and proves it of   *)
(* the claim after it, for any record.  Names are equal there.  `last` is  *)
(* the offset of the last record, or -1.                                   *)
(***************************************************************************)
EXTENDS Claim

PositionIsOffset(claim, last)     == claim.position >= 0
PositionAbove0WasSet(claim, last) == claim.position > 0 => claim.position_set
OwnerIsKnown(claim, last) ==
    /\ IsOwned(claim) <=> claim.owner_client # NOBODY
    /\ IsOwned(claim) <=> claim.last_heartbeat_ms # NONE
OwnerHasEpoch(claim, last)        == IsOwned(claim) => claim.epoch # NONE
EpochIsInLog(claim, last)         == claim.epoch # NONE => 0 <= claim.epoch /\ claim.epoch <= last
ClockIsATime(claim, last)         == claim.clock_ms >= -1
SignOfLifeIsPast(claim, last)     == claim.last_heartbeat_ms <= claim.clock_ms
FreeHasNoKind(claim, last)        == claim.won_with_headers => IsOwned(claim)
PauseHasPauser(claim, last)       == claim.paused_until_ms # NONE => claim.pauser # NOBODY
NoReleaseTime(claim, last)        == claim.last_release_ms = NONE

\* Where time is measured.  Where it is free a record says whether a pause is over.
InAPauseNobodyOwns(claim, last) ==
    IsOwned(claim) /\ claim.paused_until_ms # NONE => claim.clock_ms >= claim.paused_until_ms

IsSound(claim, last) ==
    /\ PositionIsOffset(claim, last)
    /\ PositionAbove0WasSet(claim, last)
    /\ OwnerIsKnown(claim, last)
    /\ OwnerHasEpoch(claim, last)
    /\ EpochIsInLog(claim, last)
    /\ ClockIsATime(claim, last)
    /\ SignOfLifeIsPast(claim, last)
    /\ FreeHasNoKind(claim, last)
    /\ PauseHasPauser(claim, last)
    /\ NoReleaseTime(claim, last)

=============================================================================
