//! Queue pairs of rdma-core on a real or soft device. `lab/cases/verbs.sh` runs this; by hand:
//! `WEFT_RDMA_ADDRESS=ADDRESS cargo test -p weft-io --test io -- --ignored --skip verbs::target::
//! verbs::`.
#![cfg(target_os = "linux")]

mod ends;
mod lent;
mod target;

use core::time::Duration;
use ends::{Bench, End, REQUEST, SLOT, address, counter, done, failed, memory, pattern};
use weft_io::rdma::{Exposure, QueuePairEvent, RemoteMemory, WorkError, WorkOutcome};
use weft_io::{Loop, LoopConfig};

/// The message that an end receives next, its buffer posted again, and the key that it invalidated.
fn message(bench: &mut Bench, end: &End) -> (Vec<u8>, Option<u32>) {
    match bench.next(end) {
        QueuePairEvent::Received { buffer, immediate: None, invalidated } => {
            let bytes = end.qp().received(buffer).to_vec();
            end.qp().post_receive(buffer);
            (bytes, invalidated)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn messages_go_both_ways_with_data_behind_them() {
    let mut bench = Bench::new();
    let (host, target) = bench.pair(None);
    for round in 0..50u8 {
        host.qp().send(7, &[round; 64], None, None);
        assert_eq!(message(&mut bench, &target), (vec![round; 64], None));
        assert_eq!(bench.next(&host), done(7));
        target.fill(&pattern(1000, round.into()));
        target.qp().send(u64::MAX, &[round; 16], Some(memory(0, 1000)), None);
        let (bytes, _) = message(&mut bench, &host);
        assert!(bytes[..16] == [round; 16] && bytes[16..] == pattern(1000, round.into()));
        assert_eq!(bench.next(&target), done(u64::MAX));
    }
}

/// Reads and writes the host's memory, as a target does.
fn transfer(bench: &mut Bench, exposure: Exposure) {
    let (host, target) = bench.pair(Some(exposure));
    let len = 100_000;
    for round in 0..3 {
        host.fill(&pattern(len, round));
        let at = host.qp().expose(1, SLOT, len as u32, false).unwrap();
        // The message tells that the bind is done.
        host.qp().send(2, b"exposed", None, None);
        assert_eq!(message(bench, &target).0, b"exposed");
        assert_eq!(bench.next(&host), done(2));
        target.qp().prepare(SLOT, len as u32).unwrap();
        target.qp().read(3, memory(0, 60_000), at);
        target.qp().read(
            4,
            memory(60_000, 40_000),
            RemoteMemory { address: at.address + 60_000, ..at },
        );
        assert_eq!([bench.next(&target), bench.next(&target)], [done(3), done(4)]);
        assert_eq!(target.content(len), pattern(len, round));
        conceal(bench, &host, exposure);

        let at = host.qp().expose(1, SLOT, len as u32, true).unwrap();
        host.qp().send(2, b"exposed", None, None);
        assert_eq!(message(bench, &target).0, b"exposed");
        assert_eq!(bench.next(&host), done(2));
        target.fill(&pattern(len, 100 + round));
        target.qp().write(5, memory(0, 50_000), at, false);
        target.qp().write(
            6,
            memory(50_000, 50_000),
            RemoteMemory { address: at.address + 50_000, ..at },
            true,
        );
        assert_eq!(bench.next(&target), done(6));
        target.qp().send(8, b"written", None, None);
        assert_eq!((message(bench, &host).0, bench.next(&target)), (b"written".to_vec(), done(8)));
        assert_eq!(host.content(len), pattern(len, 100 + round));
        conceal(bench, &host, exposure);
        host.qp().release(SLOT);
    }
    if exposure != Exposure::Standing {
        let at = host.qp().expose(1, SLOT, 4096, true);
        assert!(at.is_err(), "memory that was released is not exposed");
    }
    drop((host, target));
}

fn conceal(bench: &mut Bench, host: &End, exposure: Exposure) {
    if exposure == Exposure::Window {
        host.qp().invalidate(9, SLOT);
        assert_eq!(bench.next(host), done(9));
    } else {
        host.qp().conceal(SLOT);
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn memory_is_read_and_written_by_a_window() {
    transfer(&mut Bench::new(), Exposure::Window);
}

#[test]
#[ignore = "needs an RDMA device"]
fn memory_is_read_and_written_by_a_registration() {
    transfer(&mut Bench::new(), Exposure::Registration);
}

#[test]
#[ignore = "needs an RDMA device"]
fn memory_is_read_and_written_by_a_standing_key() {
    transfer(&mut Bench::new(), Exposure::Standing);
}

/// Reads memory that is no longer accessible, or never was to this extent: the read is refused, and
/// both ends are flushed.
fn refused(bench: &mut Bench, host: &End, target: &End, at: RemoteMemory, bytes: u32) {
    target.qp().prepare(SLOT, bytes).unwrap();
    target.qp().read(30, memory(0, bytes), at);
    target.qp().send(31, b"never sent", None, None);
    assert_eq!(bench.next(target), failed(30, WorkError::RemoteAccess));
    let mut ended = Vec::new();
    while ended.len() < 9 {
        ended.push(bench.next(target));
    }
    assert!(ended.contains(&QueuePairEvent::WorkEnded { id: 31, ended: WorkOutcome::Flushed }));
    assert_eq!(
        ended
            .iter()
            .filter(|event| matches!(event, QueuePairEvent::ReceiveEnded { error: None, .. }))
            .count(),
        8
    );
    target.qp().disconnect();
    loop {
        if bench.next(host) == QueuePairEvent::Disconnected {
            break;
        }
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_window_ends_with_its_invalidation_by_either_end() {
    for by_message in [true, false] {
        let mut bench = Bench::new();
        let (host, target) = bench.pair(Some(Exposure::Window));
        host.fill(&pattern(8192, 0));
        let at = host.qp().expose(1, SLOT, 8192, false).unwrap();
        host.qp().send(2, b"exposed", None, None);
        assert_eq!(
            (message(&mut bench, &target).0, bench.next(&host)),
            (b"exposed".to_vec(), done(2))
        );
        assert!(host.qp().prepare(SLOT, 8192).is_err(), "what is exposed is in use");
        if by_message {
            target.qp().send(3, b"answer", None, Some(at.key));
            assert_eq!(message(&mut bench, &host), (b"answer".to_vec(), Some(at.key)));
            assert_eq!(bench.next(&target), done(3));
        } else {
            host.qp().invalidate(4, SLOT);
            assert_eq!(bench.next(&host), done(4));
        }
        host.qp().prepare(SLOT, 8192).unwrap();
        let again = host.qp().expose(1, SLOT, 4096, false).unwrap();
        assert_ne!(again.key, at.key);
        host.qp().send(5, b"again", None, None);
        assert_eq!(
            (message(&mut bench, &target).0, bench.next(&host)),
            (b"again".to_vec(), done(5))
        );
        refused(&mut bench, &host, &target, at, 4096);
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn nothing_beyond_what_is_exposed_is_read() {
    // Soft RoCE lets a window reach as far as the memory that is registered around it, which is
    // more than here.
    for (exposure, beyond) in [(Exposure::Registration, 1), (Exposure::Window, 4 << 20)] {
        let mut bench = Bench::new();
        let (host, target) = bench.pair(Some(exposure));
        host.fill(&pattern(8192, 0));
        let at = host.qp().expose(1, SLOT, 4096, false).unwrap();
        host.qp().send(2, b"exposed", None, None);
        assert_eq!(
            (message(&mut bench, &target).0, bench.next(&host)),
            (b"exposed".to_vec(), done(2))
        );
        refused(&mut bench, &host, &target, at, 4096 + beyond);
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_registration_ends_at_once() {
    let mut bench = Bench::new();
    let (host, target) = bench.pair(Some(Exposure::Registration));
    host.fill(&pattern(8192, 0));
    let at = host.qp().expose(1, SLOT, 8192, false).unwrap();
    host.qp().conceal(SLOT);
    refused(&mut bench, &host, &target, at, 4096);
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_rejection_carries_private_data() {
    let mut bench = Bench::new();
    let (listening, at) = bench.listen();
    let host = bench.connect(at);
    assert_eq!(bench.next(&host), QueuePairEvent::Resolved);
    host.begin(None);
    host.qp().open(REQUEST).unwrap();
    let mut request = bench.until(|| listening.requests.borrow_mut().pop_front());
    request.reject(&[1, 2, 3, 4]);
    drop(request);
    assert_eq!(bench.next(&host), QueuePairEvent::Rejected);
    assert!(host.qp().private_data().starts_with(&[1, 2, 3, 4]));
    // Receives that were posted are flushed.
    host.qp().disconnect();
    for _ in 0..8 {
        assert!(matches!(bench.next(&host), QueuePairEvent::ReceiveEnded { error: None, .. }));
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn where_nobody_listens_there_is_a_sentence() {
    let mut bench = Bench::new();
    let mut at = address();
    at.set_port(4);
    let host = bench.connect(at);
    assert_eq!(bench.next(&host), QueuePairEvent::Resolved);
    host.begin(None);
    host.qp().open(REQUEST).unwrap();
    assert_eq!(bench.next(&host), QueuePairEvent::Rejected);
    assert_eq!(host.qp().trouble().unwrap(), format!("nobody listens on RDMA at {at}"));
    let nowhere = bench.on().connect_rdma("127.0.0.1:4420".parse().unwrap());
    if let Ok(qp) = nowhere {
        let end = End::new(bench.on(), qp);
        assert_eq!(bench.next(&end), QueuePairEvent::Failed);
        assert!(end.qp().trouble().unwrap().contains("RDMA"), "{:?}", end.qp().trouble());
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_message_waits_for_a_receive() {
    let mut bench = Bench::new();
    let (host, target) = bench.pair(None);
    let before = counter("rcvd_rnr_err");
    for id in 0..9 {
        host.qp().send(id, &[id as u8], None, None);
    }
    let mut first = Vec::new();
    while first.len() < 8 {
        let QueuePairEvent::Received { buffer, .. } = bench.next(&target) else {
            panic!("a message")
        };
        first.push(target.qp().received(buffer).to_vec());
        if first.len() == 8 {
            target.qp().post_receive(buffer);
        }
    }
    assert_eq!(first, (0..8).map(|id| vec![id]).collect::<Vec<Vec<u8>>>());
    assert_eq!(message(&mut bench, &target).0, [8]);
    for id in 0..9 {
        assert_eq!(bench.next(&host), done(id));
    }
    if let (Some(before), Some(now)) = (before, counter("rcvd_rnr_err")) {
        assert!(now > before, "it was refused at first, as the receive queue was empty");
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn work_that_nobody_answers_exceeds_its_retries() {
    let mut bench = Bench::new();
    let (host, target) = bench.pair(None);
    let before = counter("retry_exceeded_err");
    // Its queue pair is in the error state, and answers nothing. The host does not follow.
    target.qp().disconnect();
    assert_eq!(bench.next(&host), QueuePairEvent::Disconnected);
    host.qp().send(1, b"to nobody", None, None);
    host.qp().send(2, b"behind it", None, None);
    assert_eq!(bench.next(&host), failed(1, WorkError::RetriesExceeded));
    let mut ended = Vec::new();
    while ended.len() < 9 {
        ended.push(bench.next(&host));
    }
    assert!(
        ended.contains(&QueuePairEvent::WorkEnded { id: 2, ended: WorkOutcome::Flushed }),
        "{ended:?}"
    );
    if let (Some(before), Some(now)) = (before, counter("retry_exceeded_err")) {
        assert!(now > before, "the device says so, too");
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_message_that_is_too_long_ends_both_ends() {
    let mut bench = Bench::new();
    let (host, target) = bench.pair(None);
    host.fill(&pattern(5000, 0));
    host.qp().send(1, b"long", Some(memory(0, 5000)), None);
    // Devices differ in what they call it.
    assert!(matches!(bench.next(&target), QueuePairEvent::ReceiveEnded { error: Some(_), .. }));
    assert!(matches!(
        bench.next(&host),
        QueuePairEvent::WorkEnded { id: 1, ended: WorkOutcome::Failed(_) }
    ));
}

#[test]
#[ignore = "needs an RDMA device"]
fn what_cannot_be_posted_ends_like_other_work() {
    let mut bench = Bench::new();
    let (host, _target) = bench.pair(None);
    host.qp().send(1, &[0; 65], None, None);
    assert_eq!(bench.next(&host), failed(1, WorkError::NotPosted));
    host.qp().read(2, memory(0, 1), RemoteMemory { address: 0, key: 0 });
    assert_eq!(bench.next(&host), failed(2, WorkError::NotPosted));
    assert!(host.qp().expose(3, SLOT, 1, true).is_err());
}

#[test]
#[ignore = "needs an RDMA device"]
fn an_end_flushes_everything_and_tells_the_other_end() {
    let mut bench = Bench::new();
    let (host, target) = bench.pair(None);
    host.qp().disconnect();
    host.qp().send(1, b"late", None, None);
    let mut ended = Vec::new();
    while ended.len() < 9 {
        match bench.next(&host) {
            QueuePairEvent::Disconnected => {}
            event => ended.push(event),
        }
    }
    assert!(
        ended.contains(&QueuePairEvent::WorkEnded { id: 1, ended: WorkOutcome::Flushed }),
        "{ended:?}"
    );
    assert_eq!(bench.next(&target), QueuePairEvent::Disconnected);
    target.qp().disconnect();
    for _ in 0..8 {
        assert!(matches!(bench.next(&target), QueuePairEvent::ReceiveEnded { error: None, .. }));
    }
    target.qp().destroy();
    target.qp().send(2, b"later", None, None);
    target.qp().post_receive(0);
    assert!(
        target
            .qp()
            .poll(bench.on())
            .unwrap()
            .is_none_or(|event| matches!(event, QueuePairEvent::WorkEnded { .. }))
    );
}

#[test]
#[ignore = "needs an RDMA device"]
fn an_end_that_is_dropped_ends_the_other_one() {
    let mut bench = Bench::new();
    let (host, target) = bench.pair(Some(Exposure::Window));
    host.fill(&[1; 4096]);
    host.qp().expose(1, SLOT, 4096, true).unwrap();
    drop(host);
    assert_eq!(bench.next(&target), QueuePairEvent::Disconnected);
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_queue_pair_moves_to_another_loop() {
    let mut bench = Bench::new();
    let (host, target) = bench.pair(None);
    let moved = target.leave();
    host.qp().send(1, b"while it moves", None, None);
    let thread = std::thread::spawn(move || {
        let mut bench = Bench::new();
        let target = End::new(bench.on(), moved);
        assert_eq!(message(&mut bench, &target).0, b"while it moves");
        assert_eq!(message(&mut bench, &target).0, b"and afterwards");
        target.qp().send(2, b"answer", None, None);
        assert_eq!(bench.next(&target), done(2));
        target.leave()
    });
    assert_eq!(bench.next(&host), done(1));
    host.qp().send(3, b"and afterwards", None, None);
    assert_eq!(bench.next(&host), done(3));
    assert_eq!(message(&mut bench, &host).0, b"answer");
    drop(thread.join().unwrap());
    assert_eq!(bench.next(&host), QueuePairEvent::Disconnected);
}

#[test]
#[ignore = "needs an RDMA device"]
fn an_idle_connection_costs_no_turns() {
    let mut bench = Bench::new();
    let (host, target) = bench.pair(None);
    host.qp().send(1, b"last", None, None);
    assert_eq!((message(&mut bench, &target).0, bench.next(&host)), (b"last".to_vec(), done(1)));
    // The turns of the work above come to their end.
    let end = bench.on().clock() + Duration::from_millis(300);
    while bench.on().clock() < end {
        let _ = bench.event_loop.turn(false).unwrap();
    }
    let before = bench.on().counters().turns.value();
    let remote = bench.on().remote();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        remote.post(|on| on.stop());
    });
    bench.event_loop.run().unwrap();
    thread.join().unwrap();
    // It sleeps, and is not woken but for the end.
    assert!(bench.on().counters().turns.value() - before < 100);
    assert!(host.taken().is_empty());
}

#[test]
fn a_machine_without_rdma_is_told_what_to_do() {
    let event_loop = Loop::new(LoopConfig::default()).unwrap();
    let connect = event_loop.handle().connect_rdma(([127, 0, 0, 1], 4420).into()).err();
    let listen = event_loop.handle().listen_rdma(([127, 0, 0, 1], 0).into()).err();
    for why in connect.into_iter().chain(listen) {
        assert!(why.to_string().contains("RDMA"), "{why}");
    }
}
