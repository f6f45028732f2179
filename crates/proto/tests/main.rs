//! The integration tests of this crate, in one program, since each program links all of weft.
//! Those that need a process of their own stand in `Cargo.toml`.

mod iscsi_initiator;
mod iscsi_pair;
mod iscsi_target;
mod nbd;
mod nvme_auth;
mod nvme_controller;
mod nvme_controller_support;
mod nvme_host_control;
mod nvme_host_decoders;
mod nvme_host_pair;
mod nvme_host_sequences;
mod nvme_rdma;
mod nvme_tcp;
mod nvme_tcp_perf;
mod reservations;
mod scsi_unit;
mod support;
mod virtio;
