//! Both ends of an NVMe/TCP connection: bytes on the wire, cuts, broken rules, and the two wired to
//! each other.

mod cuts;
mod data_digest;
mod drop;
mod early_response;
mod golden;
mod pair;
mod properties;
mod violations;
