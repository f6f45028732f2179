//! The integration tests of the program, in one program of their own, since each program links all
//! of weft. Those that need a process of their own stand in `Cargo.toml`.

mod agents;
mod capture;
mod connect;
mod connect_all;
mod control;
mod copy;
mod copy_sizes;
mod daemon;
mod defaults;
mod dhchap;
mod discovered_paths;
mod discovery;
mod docs;
mod fio;
mod fio_options;
mod gateways;
mod imported;
mod ipv6;
mod iscsi_conformance;
mod iscsi_login;
mod iscsi_tools;
mod job_groups;
mod killed;
mod limitations;
mod manage;
mod many_jobs;
mod mirror;
mod mirror_copies;
mod monitoring;
mod names;
mod nbd;
mod neighbours;
#[path = "../../endpoint/tests/reservations/nvme.rs"]
mod nvme;
mod nvme_cli;
mod packaging;
mod rbd;
mod refusals;
mod remarks;
mod reservations;
mod secrets;
mod serve;
mod service;
mod shared;
mod slow;
mod status;
mod strangers;
mod study;
mod study_fio;
mod support;
mod tls;
mod unread;
mod vhost_user;
#[path = "../../endpoint/tests/common/wire.rs"]
mod wire;
