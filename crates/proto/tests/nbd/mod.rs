//! NBD: both ends back to back, and each against what no peer should send.

mod cuts;
mod end;
mod garbage;
mod golden;
mod negotiation;
mod pair;
mod transfers;
mod violations;
