use crate::Refusal;
use crate::testing::{Rig, TestOp, TestPlan};
use crate::{BlockQueue, Device, Op, OpKind, OpenOptions, Opening, Outcome, StatusKind, open};
use std::collections::VecDeque;
use weft_io::segment::Divided;
use weft_io::{Activity, Driver, Handle, Loop, LoopConfig, Segments};

const WRITE: OpKind = OpKind::Write { fua: false };
const BLOCKS: u64 = 2048;

fn device(options: &str) -> Device {
    open(&format!("error:{options},ram:1MiB"), &OpenOptions::default())
        .unwrap_or_else(|e| panic!("{e}"))
}

fn block(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(64)
}

/// Writes a number into every block and reads them all; the outcomes of both and what was read.
fn run(options: &str) -> (Vec<StatusKind>, Vec<StatusKind>, Vec<Vec<u8>>) {
    let device = device(options);
    let rig = Rig::new(&device, TestPlan::default());
    let kinds = |answers: &[crate::testing::TestOutcome]| {
        answers.iter().map(|a| a.outcome.status().kind).collect()
    };
    let writes = rig.run(0, (0..BLOCKS).map(|n| rig.request(WRITE, n, block(n))).collect());
    assert!(
        writes.iter().zip(0..).all(|(answer, n)| answer.data == block(n)),
        "the submitter's memory comes back as it was"
    );
    let reads =
        rig.run(0, (0..BLOCKS).map(|n| rig.request(OpKind::Read, n, vec![0xee; 512])).collect());
    rig.end();
    (kinds(&writes), kinds(&reads), reads.into_iter().map(|answer| answer.data).collect())
}

fn count(kinds: &[StatusKind], kind: StatusKind) -> usize {
    kinds.iter().filter(|&&k| k == kind).count()
}

/// Blocks that read as something else than was written: how often and what.
fn wrong(data: &[Vec<u8>]) -> Vec<(u64, &Vec<u8>)> {
    (0..).zip(data).filter(|(n, read)| **read != block(*n)).collect()
}

#[test]
fn errors_come_at_their_rate_and_leave_the_rest_alone() {
    let (writes, reads, data) = run("rate=0.1,kind=nospace,ops=write,seed=1");
    let failed = count(&writes, StatusKind::NoSpace);
    assert!((100..320).contains(&failed), "{failed}");
    assert_eq!(failed + count(&writes, StatusKind::Success), 2048);
    assert_eq!(count(&reads, StatusKind::Success), 2048);
    assert_eq!(
        wrong(&data).len(),
        failed - usize::from(writes[0] != StatusKind::Success),
        "a failed write stores nothing"
    );
    let (writes, reads, _) = run("rate=1");
    assert_eq!((count(&writes, StatusKind::Media), count(&reads, StatusKind::Media)), (2048, 2048));
    let (writes, reads, data) = run("rate=0");
    assert_eq!(
        (
            count(&writes, StatusKind::Success),
            count(&reads, StatusKind::Success),
            wrong(&data).len()
        ),
        (2048, 2048, 0)
    );
}

#[test]
fn a_seed_is_a_history() {
    let strikes = |seed: u64| run(&format!("rate=0.05,seed={seed}")).1;
    assert_eq!(strikes(5), strikes(5));
    assert_ne!(strikes(5), strikes(6));
}

#[test]
fn corruption_is_silent_and_of_its_kind() {
    for (corrupt, ops) in
        [("bitflip", "read"), ("bitflip", "write"), ("zero", "read"), ("zero", "write")]
    {
        let (writes, reads, data) = run(&format!("rate=0.02,corrupt={corrupt},ops={ops},seed=3"));
        assert_eq!(
            (count(&writes, StatusKind::Success), count(&reads, StatusKind::Success)),
            (2048, 2048)
        );
        let wrong = wrong(&data);
        assert!((15..90).contains(&wrong.len()), "{corrupt} {ops}: {}", wrong.len());
        for (n, read) in wrong {
            let bits: u32 = read.iter().zip(block(n)).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert!(
                if corrupt == "zero" { *read == vec![0; 512] } else { bits == 1 },
                "{corrupt} {ops} of block {n}"
            );
        }
    }
}

#[test]
fn misplaced_and_stale_blocks() {
    let (_, reads, data) = run("rate=0.02,corrupt=misplaced,ops=read,seed=4");
    let misread = wrong(&data);
    assert!((15..90).contains(&misread.len()) && count(&reads, StatusKind::Success) == 2048);
    assert!(misread.iter().all(|(n, read)| {
        data.iter()
            .enumerate()
            .any(|(other, _)| **read == block(other as u64) && other as u64 != *n)
    }));
    // Each misplaced write leaves its own block as it was, and may hit one that was written before.
    let (_, _, data) = run("rate=0.02,corrupt=misplaced,ops=write,seed=4");
    assert!((15..180).contains(&wrong(&data).len()));
    let (writes, _, data) = run("rate=0.02,corrupt=stale,seed=4");
    let stale = wrong(&data);
    assert!(
        (15..90).contains(&stale.len()) && stale.iter().all(|(_, read)| **read == vec![0; 512])
    );
    assert_eq!(count(&writes, StatusKind::Success), 2048);
}

#[test]
fn what_is_not_answered_can_be_cancelled() {
    let device = device("rate=1,kind=timeout,ops=read");
    let rig = Rig::new(&device, TestPlan::default());
    rig.write(0, 3, &block(3));
    let names = rig.start(
        0,
        vec![rig.request(OpKind::Read, 3, vec![0; 512]), rig.request(WRITE, 4, block(4))],
    );
    assert!(rig.wait(0, &names[1..])[0].outcome.is_success(), "others go on");
    rig.cancel(0, names[0]);
    let outcome = rig.wait(0, &names[..1])[0].outcome;
    assert!(matches!(outcome, Outcome::NotSent(status) if status.kind == StatusKind::Aborted));
    rig.start(0, vec![rig.request(OpKind::Read, 3, vec![0; 512])]);
    rig.reopen(0);
    rig.end();
}

#[test]
fn flushes_and_discards_can_be_struck() {
    let device = device("rate=1,kind=internal,ops=flush+discard");
    let rig = Rig::new(&device, TestPlan::default());
    let bare = |kind| TestOp {
        kind,
        lba: 0,
        blocks: u32::from(kind == OpKind::Discard),
        data: vec![],
        cuts: vec![],
    };
    rig.fails(0, bare(OpKind::Flush), StatusKind::Internal);
    rig.fails(0, bare(OpKind::Discard), StatusKind::Internal);
    rig.write(0, 0, &block(0));
    rig.end();
}

#[test]
fn as_many_are_affected_as_may_be() {
    let (writes, reads, _) = run("rate=1,kind=nospace,after=5,count=3");
    let failed: Vec<usize> = (0..)
        .zip(&writes)
        .filter(|(_, kind)| **kind == StatusKind::NoSpace)
        .map(|it| it.0)
        .collect();
    assert_eq!(failed, [5, 6, 7]);
    assert_eq!(count(&reads, StatusKind::Success), 2048);
    // All queues together.
    let device = device("rate=1,kind=nospace,count=1");
    let rig = Rig::new(&device, TestPlan::default());
    rig.fails(0, rig.request(WRITE, 1, block(1)), StatusKind::NoSpace);
    rig.reopen(0);
    rig.write(0, 1, &block(1));
    rig.end();
}

#[test]
fn mistakes_are_told() {
    type Is = fn(&Refusal) -> bool;
    let mistakes: &[(&str, Is)] = &[
        ("seed=1", |r| matches!(r, Refusal::OptionMissing { name: "rate", .. })),
        ("rate=2", |r| matches!(r, Refusal::OptionValue { name: "rate", .. })),
        ("rate=x", |r| matches!(r, Refusal::OptionValue { name: "rate", .. })),
        ("rate=0.1,kind=bad", |r| matches!(r, Refusal::OptionValue { name: "kind", .. })),
        ("rate=0.1,kind=media,corrupt=zero", |r| matches!(r, Refusal::Contradiction { .. })),
        ("rate=0.1,corrupt=stale,ops=read", |r| matches!(r, Refusal::Contradiction { .. })),
        ("rate=0.1,corrupt=zero,ops=flush", |r| matches!(r, Refusal::Contradiction { .. })),
        ("rate=0.1,ops=read+erase", |r| matches!(r, Refusal::OptionValue { name: "ops", .. })),
        (
            "rate=0.1,how=badly",
            |r| matches!(r, Refusal::UnknownOption { name, .. } if name == "how"),
        ),
    ];
    for (options, says) in mistakes {
        let error = open(&format!("error:{options},ram:1MiB"), &OpenOptions::default())
            .err()
            .expect(options);
        assert!(says(error.refusal().unwrap()), "{options}: {error}");
    }
    let deep = format!("{}ram:1MiB", "error:rate=0,".repeat(17));
    assert!(
        open(&deep, &OpenOptions::default()).err().unwrap().refusal()
            == Some(&Refusal::TooManyFilters)
    );
    let resolver = |url: &str| {
        (url == "other:x,rate=3").then(|| Opening::ready(open("ram:1MiB", &OpenOptions::default())))
    };
    let options = OpenOptions::with_resolver(&resolver);
    assert_eq!(
        open("error:rate=0,seed=2,other:x,rate=3", &options).unwrap().geometry().blocks,
        2048
    );
}

struct Owner;

impl Driver for Owner {
    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

/// Runs `test` with a queue of the device.
fn with_queue(options: &str, test: impl FnOnce(&Handle, &mut dyn BlockQueue)) {
    let event_loop = Loop::new(LoopConfig::default()).unwrap();
    let on = event_loop.handle();
    let owner = on.spawn(|_| Owner);
    let mut queue = device(options).open_queue(on, owner).unwrap();
    test(on, &mut *queue);
}

/// Reads 8 blocks in the device's own memory, or by an operation where that is refused; how it
/// ended.
fn read_in_place(on: &Handle, queue: &mut dyn BlockQueue, lba: u64) -> StatusKind {
    if queue.in_place().unwrap().lend(lba, 8, &mut Segments::new()) {
        return StatusKind::Success;
    }
    let data = Segments::from_iter([on.pool().take(4096).unwrap().into()]);
    queue.submit(&mut VecDeque::from([Op::new(OpKind::Read, lba, 8, lba, data)]));
    let mut done = Vec::new();
    queue.reap(&mut done);
    done[0].outcome.status().kind
}

#[test]
fn memory_that_is_lent_is_struck_as_often_and_at_the_same_places() {
    let mut in_place = Vec::new();
    with_queue("rate=0.1,seed=6", |on, queue| {
        in_place = (0..2000).map(|n| read_in_place(on, queue, n % 256 * 8)).collect()
    });
    let mut as_operations = Vec::new();
    with_queue("rate=0.1,seed=6", |on, queue| {
        as_operations = (0..2000)
            .map(|n| {
                let data = Segments::from_iter([on.pool().take(512).unwrap().into()]);
                queue.submit(&mut VecDeque::from([Op::new(OpKind::Read, n, 1, n, data)]));
                let mut done = Vec::new();
                queue.reap(&mut done);
                done[0].outcome.status().kind
            })
            .collect();
    });
    assert!((100..320).contains(&count(&in_place, StatusKind::Media)));
    assert_eq!(in_place, as_operations);
}

#[test]
fn memory_that_is_only_read_is_spoilt_in_a_copy() {
    with_queue("rate=1,corrupt=zero,ops=write", |on, queue| {
        let mut memory = on.pool().take(512).unwrap();
        memory.fill(7);
        let mut divided = Divided::new();
        divided.fill(Segments::from_iter([memory.into()]));
        let mut data = Segments::new();
        divided.share(0, 512, &mut data);
        queue.submit(&mut VecDeque::from([Op::new(WRITE, 1, 1, 1, data)]));
        let mut done = Vec::new();
        queue.reap(&mut done);
        assert!(done[0].outcome.is_success() && done[0].op.data[0].iter().all(|&byte| byte == 7));
        drop(done);
        assert!(divided.take_back().is_some());
        let mut lent = Segments::new();
        assert!(
            queue.in_place().unwrap().lend(0, 8, &mut lent)
                && lent[0].iter().all(|&byte| byte == 0)
        );
    });
}

#[test]
fn a_copy_is_within_the_cap_of_the_pool() {
    with_queue("rate=1,corrupt=zero,ops=write", |on, queue| {
        let mut divided = Divided::new();
        divided.fill(Segments::from_iter([on.pool().take(512).unwrap().into()]));
        let all = |bytes| std::iter::from_fn(move || on.pool().take(bytes));
        let kept: Vec<_> = all(2 << 20).chain(all(64 << 10)).chain(all(4096)).collect();
        let cap = on.pool().allocated_bytes();
        let mut data = Segments::new();
        divided.share(0, 512, &mut data);
        queue.submit(&mut VecDeque::from([Op::new(WRITE, 0, 1, 1, data)]));
        let mut done = Vec::new();
        queue.reap(&mut done);
        assert!(
            matches!(done[0].outcome, Outcome::NotSent(status) if status.kind == StatusKind::Busy)
        );
        assert_eq!(on.pool().allocated_bytes(), cap);
        drop(kept);
    });
}

#[test]
fn what_is_stored_in_place_fails_and_lies_too() {
    let store = |queue: &mut dyn BlockQueue, n: u64| {
        queue.in_place().unwrap().store(n, 1, &block(n)).status().kind
    };
    with_queue("rate=0.1,kind=nospace,ops=write", |_, queue| {
        assert!(queue.in_place().unwrap().stores());
        let ended: Vec<_> = (0..BLOCKS).map(|n| store(queue, n)).collect();
        assert!((100..320).contains(&count(&ended, StatusKind::NoSpace)));
    });
    for corrupt in ["bitflip", "zero", "stale", "misplaced"] {
        with_queue(&format!("rate=0.1,corrupt={corrupt},ops=write"), |on, queue| {
            assert!((1..BLOCKS).all(|n| store(queue, n) == StatusKind::Success));
            let mut wrong = 0;
            for n in 1..BLOCKS {
                let data = Segments::from_iter([on.pool().take(512).unwrap().into()]);
                queue.submit(&mut VecDeque::from([Op::new(OpKind::Read, n, 1, n, data)]));
                let mut done = Vec::new();
                queue.reap(&mut done);
                wrong += usize::from(*done[0].op.data[0] != *block(n));
            }
            assert!((100..640).contains(&wrong), "{corrupt}: {wrong}");
        });
    }
    with_queue("rate=0.1,kind=timeout,ops=write", |_, queue| {
        assert!(!queue.in_place().unwrap().stores())
    });
    with_queue("rate=0.1,kind=timeout,ops=read", |_, queue| {
        assert!(queue.in_place().unwrap().stores())
    });
}
