//! Devices without lasting names: that another one in their place is not noticed is said once, when
//! they are opened.

use crate::hostile::fake::{Fake, Reply, c2h_data, is_admin, success};
use crate::hostile::iscsi::{IQN, Served};
use crate::hostile::targets::patient;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, MutexGuard};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use weft_base::lock::Lock;
use weft_endpoint::export::iscsi::TargetLimits;
use weft_endpoint::open;
use weft_proto::iscsi::pdu::{Head, Opcode, padding};
use weft_proto::nvme::identify::{Cns, NamespaceDescriptors};
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Id128, Qid};
use weft_proto::nvme_tcp::pdu::Flags;

/// The warnings of this kind that the program gave, whichever test caused them.
static WARNINGS: Lock<Vec<String>> = Lock::new(Vec::new());

fn warnings() -> MutexGuard<'static, Vec<String>> {
    WARNINGS.lock()
}

/// Keeps warnings that a device has no lasting name.
struct Keep;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Keep {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        if text.0.contains("is not noticed") {
            warnings().push(text.0);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Answers the list of names of a namespace with a UUID.
fn named(qid: Qid, sqe: &Sqe) -> Reply {
    if !is_admin(qid, sqe, AdminOpcode::IDENTIFY)
        || sqe.dword(10) as u8 != Cns::NAMESPACE_DESCRIPTORS.0
    {
        return Reply::Usual;
    }
    let names =
        NamespaceDescriptors { uuid: Some(Id128([7; 16])), ..NamespaceDescriptors::default() };
    Reply::Bytes(
        [c2h_data(sqe.cid(), 0, &names.encode(), Flags::LAST), success(sqe.cid(), 0)].concat(),
    )
}

/// The next PDU of a session without digests, if there is one.
fn pdu(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut pdu = vec![0; 48];
    from.read_exact(&mut pdu).ok()?;
    let bytes = Head::decode(pdu.first_chunk().unwrap()).data_bytes;
    pdu.resize(48 + bytes as usize + padding(bytes), 0);
    from.read_exact(&mut pdu[48..]).ok()?;
    Some(pdu)
}

/// Carries one session to an iSCSI target and back, and leaves the serial number and the
/// designators out of the list of the pages that its logical unit has.
fn without_names(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let Ok((host, _)) = listener.accept() else { return };
        let target = TcpStream::connect(to).unwrap();
        // Initiator task tags of INQUIRY for page 00h.
        let asked = Arc::new(Lock::new(Vec::<[u8; 4]>::new()));
        let (mut from_host, mut to_target, questions) =
            (host.try_clone().unwrap(), target.try_clone().unwrap(), Arc::clone(&asked));
        std::thread::spawn(move || {
            while let Some(pdu) = pdu(&mut from_host) {
                if Opcode::of(pdu[0]) == Opcode::SCSI_COMMAND && pdu[32..35] == [0x12, 1, 0] {
                    questions.lock().push(pdu[16..20].try_into().unwrap());
                }
                if to_target.write_all(&pdu).is_err() {
                    break;
                }
            }
            let _ = to_target.shutdown(Shutdown::Both);
        });
        let (mut from_target, mut to_host) = (target, host);
        while let Some(mut pdu) = pdu(&mut from_target) {
            if Opcode::of(pdu[0]) == Opcode::DATA_IN
                && asked.lock().iter().any(|tag| pdu[16..20] == tag[..])
            {
                pdu[52..]
                    .iter_mut()
                    .filter(|page| [0x80, 0x83].contains(*page))
                    .for_each(|page| *page = 0);
            }
            if to_host.write_all(&pdu).is_err() {
                break;
            }
        }
        let _ = to_host.shutdown(Shutdown::Both);
    });
    address
}

/// Warnings that name an address, which no other test has while this one does.
fn remarks(address: &str) -> usize {
    warnings().iter().filter(|text| text.contains(address)).count()
}

/// How many warnings name an address after a device there was opened, beyond those of tests that
/// had the address before.
fn remarks_of_opening(url: &str, address: &str) -> usize {
    let before = remarks(address);
    drop(open(url, &patient()).unwrap());
    remarks(address) - before
}

#[test]
fn devices_without_names_are_remarked_on_once() {
    // Nobody else in this program sets one.
    tracing::subscriber::set_global_default(Keep).unwrap();
    let of = |fake: &Fake| {
        let url = fake.url();
        let address = url["nvme+tcp://".len()..].split('/').next().unwrap();
        remarks_of_opening(&url, address)
    };
    assert_eq!(of(&Fake::new(None, |_, _| Reply::Usual)), 1, "{:?}", warnings());
    assert_eq!(of(&Fake::new(None, named)), 0, "{:?}", warnings());

    let served = Served::new(TargetLimits::default());
    for (at, times) in [(without_names(served.address()), 1), (served.address(), 0)] {
        let found = remarks_of_opening(&format!("iscsi://{at}/{IQN}/0"), &at.to_string());
        assert_eq!(found, times, "{:?}", warnings());
    }
}
