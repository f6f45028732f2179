//! Targets and initiators of the Linux kernel: `--peers kernel`.
//!
//! They are configured through configfs, by files in `/dev` and by programs of the system. A
//! supervisor makes all changes and undoes them at the end of the study, also if that is killed.

pub mod initiator;
pub mod lio;
pub mod nbd_client;
pub mod needs;
mod null_blk;
pub mod nvme_tcp;
pub mod nvmet;
pub mod open_iscsi;
pub mod session;
pub mod steps;
pub mod ublk;
