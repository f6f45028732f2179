//! NBD: both ends back to back, and each against what no peer should send.

mod connection_end;
mod cuts;
mod garbage;
mod golden;
mod negotiation;
mod pair;
mod transfers;
mod violations;
