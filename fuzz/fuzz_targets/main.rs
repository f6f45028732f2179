//! All fuzz targets in one program, which is quicker to build than one for each. `WEFT_FUZZ_TARGET`
//! in the environment names the target that it runs.
#![no_main]

mod agents;
mod authentication;
mod capture;
mod controller;
mod group_records;
mod host_control;
mod host_stream;
mod iscsi_initiator;
mod iscsi_target;
mod iscsi_text;
mod mirror_labels;
mod nbd_client;
mod nbd_server;
mod pdu_headers;
mod rdma_host;
mod rdma_target;
mod reservations;
mod scsi_cdb;
mod structures;
mod target_stream;
mod tls_psk;
mod tls_records;
mod url;
mod vhost_user_messages;
mod virtio_rings;

use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::{Corpus, fuzz_target};
use std::sync::OnceLock;

/// What a target does with an input.
type Run = fn(&[u8]) -> Corpus;

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        /// All targets by their names.
        const TARGETS: &[(&str, Run)] =
            &[$((stringify!($name), |bytes| taken(bytes, $name::run))),*];
    };
}

targets!(
    agents,
    authentication,
    capture,
    controller,
    group_records,
    host_control,
    host_stream,
    iscsi_initiator,
    iscsi_target,
    iscsi_text,
    mirror_labels,
    nbd_client,
    nbd_server,
    pdu_headers,
    rdma_host,
    rdma_target,
    reservations,
    scsi_cdb,
    structures,
    target_stream,
    tls_psk,
    tls_records,
    url,
    vhost_user_messages,
    virtio_rings,
);

/// The target that was chosen.
static RUN: OnceLock<Run> = OnceLock::new();

fuzz_target!(init: choose(), |bytes: &[u8]| -> Corpus {
    RUN.get().expect("it is chosen first")(bytes)
});

/// Chooses the target that the environment names.
fn choose() {
    let name = std::env::var("WEFT_FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|(of, _)| *of == name);
    let (_, run) = target.unwrap_or_else(|| panic!("WEFT_FUZZ_TARGET names no target: {name:?}"));
    RUN.get_or_init(|| *run);
}

/// Has a target run on what the bytes mean to it; those that mean nothing are not collected.
fn taken<'a, T: Arbitrary<'a>>(bytes: &'a [u8], run: impl FnOnce(T)) -> Corpus {
    if bytes.len() < T::size_hint(0).0 {
        return Corpus::Reject;
    }
    match T::arbitrary_take_rest(Unstructured::new(bytes)) {
        Ok(input) => {
            run(input);
            Corpus::Keep
        }
        Err(_) => Corpus::Reject,
    }
}
