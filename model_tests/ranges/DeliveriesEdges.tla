--------------------------- MODULE DeliveriesEdges ---------------------------
(***************************************************************************)
(* What MCDeliveries counts, exported and held against the Python: of each *)
(* record that lands the counts and the ranges before it, the record, and  *)
(* both after it.  Any configuration of MCDeliveries is one of this        *)
(* module, with one line more: ACTION_CONSTRAINT ExportDeliveries.         *)
(***************************************************************************)
EXTENDS MCDeliveries, Export

ExportDeliveries ==
    log' # log => Export(<<taken, Ranges, last'.record, Latest.ranges', taken'>>)
=============================================================================
