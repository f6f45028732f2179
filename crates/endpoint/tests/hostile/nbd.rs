//! NBD clients that end, or do nothing, before they have chosen an export. The server is rid of
//! them.

use crate::served::{Served, devices, loops};
use std::io::{Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use weft_endpoint::export::ListeningExport;
use weft_endpoint::export::nbd::{NbdLimits, NbdServer};
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_proto::nvme::types::Nqn;
use weft_testing::wait::PATIENCE;

const GREETING: usize = 18;
const ABORT: u32 = 2;

fn serve(limits: NbdLimits) -> Served<NbdServer> {
    let subsystem = SubsystemConfig::new(Nqn::new("nqn.2026-01.example.weft:hostile").unwrap());
    let inventory = LiveInventory::of_devices(subsystem, devices(&["ram:4MiB"])).unwrap();
    Served::start(&loops(1), |on| {
        NbdServer::start(inventory, &["nbd://127.0.0.1:0"], limits, on).unwrap()
    })
}

fn connect(server: &NbdServer) -> TcpStream {
    let url = server.urls().remove(0);
    let address = url.strip_prefix("nbd://").unwrap().split('/').next().unwrap().to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut [0; GREETING]).unwrap();
    stream
}

/// What the server still sends before it closes.
fn rest(mut stream: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_client_that_aborts_its_negotiation_is_let_go() {
    let server = serve(NbdLimits::default());
    let mut stream = connect(&server);
    stream
        .write_all(&[&[0, 0, 0, 3], &b"IHAVEOPT"[..], &ABORT.to_be_bytes(), &[0; 4]].concat())
        .unwrap();
    // An acknowledgement without data, and the end.
    assert_eq!(rest(&stream).len(), 20);
}

#[test]
fn a_client_that_chooses_nothing_is_cut_off() {
    let server = serve(NbdLimits { handshake: Duration::from_millis(200), ..NbdLimits::default() });
    let mut stream = connect(&server);
    // On a loaded machine it may be closed already, and be reset by that.
    let _ = stream.write_all(&[0, 0, 0, 3]);
    let ended = stream.read(&mut [0; 1]);
    let is_reset = |e: &Error| e.kind() == ErrorKind::ConnectionReset;
    assert!(matches!(&ended, Ok(0)) || ended.as_ref().is_err_and(is_reset), "{ended:?}");
}
