//! Targets that refuse, fall silent or break the rules: `open` ends in time, with one sentence and
//! the right kind of error; and every operation completes once, with a truthful outcome.

use crate::hostile::fake::{
    BLOCKS, Fake, Reply, c2h_data, controller, ic_resp, is_admin, is_connect, is_io, r2t, response,
    success,
};
use crate::hostile::operations::Ops;
use crate::hostile::tcp::{Tcp, options};
use crate::wire::{Pdu, Peer};
use std::net::TcpListener;
use std::sync::{Arc, atomic::AtomicUsize, atomic::Ordering::SeqCst};
use std::time::Duration;
use weft_block::{ErrorKind, OpKind, Outcome, StatusKind};
use weft_endpoint::{ConnectOptions, open};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Qid};
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::{Flags, IcResp, PduType};
use weft_testing::wait::PATIENCE;

/// How long connecting may take where it is to take too long, at first. On a loaded machine the time
/// may be up before the stage at which it should be, and a longer one is tried.
const LIMIT: Duration = Duration::from_millis(600);

/// For what ends at once, be it well or not: no load of the machine makes a timeout of it.
pub fn patient() -> ConnectOptions {
    let quiesce_time = Duration::from_millis(100);
    ConnectOptions {
        connect_timeout: PATIENCE,
        quiesce_time,
        data_digest: false,
        nr_io_queues: 1,
        ..options()
    }
}

/// The time limits with which this kind of failure is seen, one after the other.
fn limits(kind: ErrorKind) -> impl Iterator<Item = ConnectOptions> {
    let first = if kind == ErrorKind::TimedOut { LIMIT } else { PATIENCE };
    let limits =
        std::iter::successors(Some(first), |limit| (*limit < PATIENCE).then(|| *limit * 2));
    limits.map(|connect_timeout| ConnectOptions { connect_timeout, ..patient() })
}

/// Opens in vain: with one sentence of this kind that contains this.
fn fails(url: &str, kind: ErrorKind, says: &str) {
    let fails = |options| open(url, &options).err().unwrap_or_else(|| panic!("{says}: it opens"));
    let mut errors = limits(kind).map(fails).map(|error| (error.kind(), error.to_string()));
    let mut last = None;
    let is_found = errors.any(|(found, text)| {
        assert!(found == kind && !text.contains('\n'), "{found:?}: {text}");
        let is_found = text.contains(says);
        last = Some(text);
        is_found
    });
    assert!(is_found, "{says}: {last:?}");
}

fn fails_after(
    script: impl Fn(Qid, &Sqe) -> Reply + Send + Sync + 'static,
    kind: ErrorKind,
    says: &str,
) {
    let fake = Fake::new(None, script);
    fails(&fake.url(), kind, says);
}

#[test]
fn nobody_listens() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    fails(
        &format!("nvme+tcp://{free}/{}", crate::hostile::tcp::NQN),
        ErrorKind::Refused,
        "check that a target listens there",
    );
}

#[test]
fn somebody_who_never_answers() {
    let fake = Fake::raw(|mut tcp: Tcp| while tcp.pdu().is_some() {});
    fails(&fake.url(), ErrorKind::TimedOut, "does not answer ICReq");
}

#[test]
fn somebody_who_speaks_something_else() {
    for (greeting, kind) in [
        (&b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..], ErrorKind::Protocol),
        (b"SSH-2.0-OpenSSH_9.2\r\n", ErrorKind::Protocol),
        (b"\x15\x03\x01\x00\x02\x02\x46", ErrorKind::Refused),
        (b"", ErrorKind::Refused),
    ] {
        let fake = Fake::raw(move |mut tcp: Tcp| {
            let _ = tcp.pdu();
            tcp.try_put(greeting);
        });
        fails(&fake.url(), kind, "check that this is the port of an NVMe/TCP target");
    }
}

#[test]
fn an_icresp_that_cannot_be() {
    let of = |ic: IcResp| ic.encode().to_vec();
    for greeting in [
        of(IcResp { pfv: 3, ..ic_resp() }),
        of(IcResp { cpda: 40, ..ic_resp() }),
        of(IcResp { digests: Digests::BOTH, ..ic_resp() }),
        of(IcResp { max_h2c_data_bytes: 0, ..ic_resp() }),
        Pdu(of(ic_resp())).with(4, &[255, 255, 255, 255]),
        Pdu(of(ic_resp())).with(0, &[0]),
        [of(ic_resp()), of(ic_resp())].concat(),
        success(Cid(0), 0),
    ] {
        let fake = Fake::new(Some(greeting), |_, _| Reply::Usual);
        let error = open(&fake.url(), &patient()).err().expect("it does not open");
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    }
}

#[test]
fn a_good_fake_opens() {
    let fake = Fake::new(None, |_, _| Reply::Usual);
    let device = open(&fake.url(), &patient()).unwrap();
    assert_eq!((device.geometry().blocks, device.geometry().block_bytes), (BLOCKS, 512));
}

#[test]
fn the_connection_ends_or_falls_silent_at_each_step() {
    // Commands until a namespace is open, on both queues.
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let fake = Fake::new(None, move |_, _| {
        counter.fetch_add(1, SeqCst);
        Reply::Usual
    });
    let device = open(&fake.url(), &patient()).unwrap();
    let all = count.load(SeqCst);
    drop((device, fake));
    assert!(all > 10, "{all}");
    // Those that fall silent wait for their limit, at the same time.
    std::thread::scope(|scope| {
        for last in 0..all {
            for silent in [true, false] {
                scope.spawn(move || ends_or_falls_silent_at(last, silent));
            }
        }
    });
}

/// Opens at a controller that does so at this command, with a time limit that lets it come there.
fn ends_or_falls_silent_at(last: usize, silent: bool) {
    let kind = if silent { ErrorKind::TimedOut } else { ErrorKind::Refused };
    let comes_there = |options: ConnectOptions| {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let fake = Fake::new(None, move |_, sqe| match counter.fetch_add(1, SeqCst) {
            n if n < last || sqe.opcode() == AdminOpcode::ASYNC_EVENT_REQUEST.0 => Reply::Usual,
            _ if silent => Reply::Silence,
            _ => Reply::HangUp,
        });
        // An event request is never answered, so that the last steps may succeed.
        let Err(error) = open(&fake.url(), &options) else { return true };
        assert_eq!(error.kind(), kind, "command {last}, silent {silent}: {error}");
        count.load(SeqCst) > last
    };
    assert!(limits(kind).any(comes_there), "command {last} never comes, silent {silent}");
}

#[test]
fn refusals_name_what_was_refused() {
    let refuse = |status: Status, result: u64| {
        move |sqe: &Sqe| {
            Reply::Bytes(response(&Cqe {
                result,
                do_not_retry: true,
                ..Cqe::new(sqe.cid(), status)
            }))
        }
    };
    let host = refuse(Status::CONNECT_INVALID_HOST, 0);
    fails_after(move |_, sqe| host(sqe), ErrorKind::PermissionDenied, "--hostnqn");
    let subsystem = refuse(Status::CONNECT_INVALID_PARAMETERS, 256 | 1 << 16);
    fails_after(move |_, sqe| subsystem(sqe), ErrorKind::NotFound, "no subsystem");
    let busy = refuse(Status::CONNECT_CONTROLLER_BUSY, 0);
    fails_after(move |_, sqe| busy(sqe), ErrorKind::Refused, "");
    let io = refuse(Status::CONNECT_INVALID_PARAMETERS, 42);
    fails_after(
        move |qid, sqe| if is_connect(sqe) && qid != Qid(0) { io(sqe) } else { Reply::Usual },
        ErrorKind::Refused,
        "",
    );
    let identify = refuse(Status::INTERNAL_ERROR, 0);
    fails_after(
        move |qid, sqe| {
            if is_admin(qid, sqe, AdminOpcode::IDENTIFY) { identify(sqe) } else { Reply::Usual }
        },
        ErrorKind::Refused,
        "",
    );
}

/// Answers Identify Controller with this.
fn identifies(
    id: weft_proto::nvme::identify::IdentifyController,
) -> impl Fn(Qid, &Sqe) -> Reply + Send + Sync {
    move |qid, sqe| {
        if !is_admin(qid, sqe, AdminOpcode::IDENTIFY) || sqe.dword(10) as u8 != 1 {
            return Reply::Usual;
        }
        let mut data = vec![0; 4096];
        id.put(&mut data);
        Reply::Bytes([c2h_data(sqe.cid(), 0, &data, Flags::LAST), success(sqe.cid(), 0)].concat())
    }
}

#[test]
fn controllers_that_are_of_no_use_are_refused() {
    let with = |change: fn(&mut weft_proto::nvme::identify::IdentifyController)| {
        let mut id = controller();
        change(&mut id);
        identifies(id)
    };
    fails_after(with(|id| id.sgls = 0), ErrorKind::Unsupported, "");
    fails_after(with(|id| id.ioccsz = 0), ErrorKind::Unsupported, "");
    fails_after(with(|id| id.sqes = 0x77), ErrorKind::Unsupported, "");
    fails_after(with(|id| id.cntlid.0 = 77), ErrorKind::Protocol, "");
    // CAP without the NVM command set, and one whose every bit is set.
    for cap in [0u64, 1 << 59, u64::MAX] {
        let fake = Fake::new(None, move |_, sqe| {
            let read = sqe.opcode() == weft_proto::nvme::sqe::OPCODE_FABRICS
                && sqe.fabrics_type() == 4
                && sqe.dword(11) == 0;
            if read { Reply::Bytes(success(sqe.cid(), cap)) } else { Reply::Usual }
        });
        let error = open(&fake.url(), &patient()).err();
        assert!(
            error.as_ref().is_none_or(|e| e.kind() == ErrorKind::Unsupported),
            "{cap:#x}: {error:?}"
        );
        assert_eq!(error.is_none(), cap == u64::MAX);
    }
    // Never ready.
    let never = |_: Qid, sqe: &Sqe| {
        let csts = sqe.opcode() == weft_proto::nvme::sqe::OPCODE_FABRICS
            && sqe.fabrics_type() == 4
            && sqe.dword(11) == 0x1c;
        if csts { Reply::Bytes(success(sqe.cid(), 0)) } else { Reply::Usual }
    };
    fails_after(never, ErrorKind::TimedOut, "");
}

#[test]
fn garbage_in_answers_to_admin_commands() {
    let garbage: [fn(Cid) -> Vec<u8>; 8] = [
        |_| vec![0xff; 64],
        |cid| success(Cid(cid.0 ^ 0x20), 0),
        |cid| [success(cid, 0), success(cid, 0)].concat(),
        |cid| c2h_data(cid, 0, &[0; 8192], Flags::LAST),
        |cid| c2h_data(Cid(cid.0 ^ 1), 0, &[0; 512], Flags::LAST),
        |cid| c2h_data(cid, 4, &[0; 512], Flags::LAST),
        |cid| r2t(cid, 0, 4096),
        |cid| Pdu(success(cid, 0)).with(4, &[0xff, 0xff, 0, 0]),
    ];
    for (n, make) in garbage.into_iter().enumerate() {
        let fake = Fake::new(None, move |qid, sqe| {
            if is_admin(qid, sqe, AdminOpcode::IDENTIFY) {
                Reply::Bytes(make(sqe.cid()))
            } else {
                Reply::Usual
            }
        });
        let error = open(&fake.url(), &patient()).err().expect("it does not open");
        assert_eq!(error.kind(), ErrorKind::Protocol, "{n}: {error}");
        assert!(!error.to_string().contains('\n'));
    }
}

const WRITE: OpKind = OpKind::Write { fua: false };

/// What comes of a read and a write of 4 KiB when the target answers I/O commands like this.
fn io_outcomes(answer: impl Fn(&Sqe) -> Reply + Send + Sync + 'static) -> Vec<Outcome> {
    let fake =
        Fake::new(None, move |qid, sqe| if is_io(qid, sqe) { answer(sqe) } else { Reply::Usual });
    let device = open(&fake.url(), &patient()).unwrap();
    Ops::start(device, vec![(OpKind::Read, 8), (WRITE, 8)]).outcomes(2)
}

#[test]
fn broken_answers_to_io_end_every_operation_once() {
    let broken: [fn(&Sqe) -> Reply; 9] = [
        |_| Reply::HangUp,
        |_| Reply::Bytes(vec![0xab; 100]),
        |sqe| Reply::Bytes(success(Cid(sqe.cid().0 ^ 0x100), 0)),
        |sqe| {
            Reply::Bytes(
                c2h_data(Cid(0x7000), 0, &[0; 512], Flags::LAST.with(Flags::SUCCESS))
                    .into_iter()
                    .chain(success(sqe.cid(), 0))
                    .collect(),
            )
        },
        |sqe| Reply::Bytes(c2h_data(sqe.cid(), 0, &[0; 8192], Flags::LAST.with(Flags::SUCCESS))),
        |sqe| Reply::Bytes(r2t(sqe.cid(), 0, 8192)),
        |sqe| Reply::Bytes(r2t(sqe.cid(), 0xffff_f000, 0x2000)),
        |sqe| Reply::Bytes(r2t(sqe.cid(), 512, 512)),
        |sqe| Reply::Bytes([r2t(sqe.cid(), 0, 0), success(sqe.cid(), 0)].concat()),
    ];
    for (n, answer) in broken.into_iter().enumerate() {
        for outcome in io_outcomes(answer) {
            let unknown = matches!(outcome, Outcome::MayHaveExecuted { .. } | Outcome::NotSent(_));
            assert!(unknown, "{n}: {outcome:?}");
        }
    }
}

#[test]
fn answers_that_are_merely_bad_news_come_through() {
    let status = |status: Status| {
        io_outcomes(move |sqe| {
            Reply::Bytes(response(&Cqe { do_not_retry: true, ..Cqe::new(sqe.cid(), status) }))
        })
    };
    for outcome in status(Status::LBA_OUT_OF_RANGE) {
        assert_eq!(outcome.status().kind, StatusKind::OutOfRange);
        assert!(matches!(outcome, Outcome::Done(_)));
    }
    // A read that is answered with success before its data, and one with less data than asked for,
    // break the rules.
    let outcomes = io_outcomes(|sqe| Reply::Bytes(success(sqe.cid(), 0)));
    assert!(!outcomes[0].is_success());
}

#[test]
fn half_an_answer_and_then_silence_is_a_timeout() {
    let fake = Fake::new(None, |qid, sqe| {
        if is_io(qid, sqe) && sqe.opcode() == 2 {
            Reply::Bytes(c2h_data(sqe.cid(), 0, &[0; 4096], Flags::LAST)[..1000].to_vec())
        } else {
            Reply::Usual
        }
    });
    let options = ConnectOptions { io_timeout: Duration::from_millis(200), ..patient() };
    let device = open(&fake.url(), &options).unwrap();
    let outcomes = Ops::start(device, vec![(OpKind::Read, 8)]).outcomes(1);
    assert!(matches!(outcomes[0], Outcome::MayHaveExecuted { .. }), "{outcomes:?}");
}

#[test]
fn a_term_req_in_mid_io_ends_the_operations() {
    let term = [&[PduType::C2H_TERM_REQ.0, 0, 24, 0, 24, 0, 0, 0, 5, 0][..], &[0; 14]].concat();
    for outcome in io_outcomes(move |_| Reply::Bytes(term.clone())) {
        assert!(matches!(outcome, Outcome::MayHaveExecuted { .. }), "{outcome:?}");
    }
}

#[test]
fn a_fused_pair_on_a_connection_that_just_broke() {
    for _ in 0..20 {
        let fake = Fake::new(None, |qid, sqe| {
            if is_io(qid, sqe) { Reply::Bytes(vec![0xff; 64]) } else { Reply::Usual }
        });
        let device = open(&fake.url(), &patient()).unwrap();
        let kinds = vec![
            (OpKind::Read, 1),
            (OpKind::CompareAndWrite { fua: false }, 1),
            (OpKind::Discard, 8),
            (OpKind::Flush, 0),
        ];
        let outcomes = Ops::start(device, kinds).outcomes(4);
        assert!(outcomes.iter().all(|outcome| !outcome.is_success()), "{outcomes:?}");
    }
}
