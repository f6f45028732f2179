//! Sequences of hosts in the field, command for command and byte for byte, from their sources:
//! every PDU goes through the target's engine and controller, and the answers are read as the host
//! reads them.

mod discovery;
mod edk2;
mod linux;
mod spdk;
mod wire;
