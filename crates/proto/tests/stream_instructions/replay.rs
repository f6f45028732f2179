//! A conversation of two engines, recorded, and shown once more to a fresh one of its ends.

use crate::{COUNTED, DEPTH, ROUNDS, WARM_UP};
use weft_proto::stream::{Part, Rx, StreamEngine, Tag, Transmit};

/// An end of a connection: its engine, and whoever is above it.
pub trait End {
    type Engine: StreamEngine;

    fn engine(&mut self) -> &mut Self::Engine;

    /// Asks for a round of commands; the target's end asks for nothing.
    fn submit(&mut self, round: usize);

    /// Follows an event; whether a command has ended by it.
    fn follow(&mut self, event: <Self::Engine as StreamEngine>::Event) -> bool;

    /// A part that releases this tag was sent.
    fn sent(&mut self, tag: Tag);
}

/// Takes in what the other end sent; how many commands have ended by it. Payload is not moved.
fn take<E: End>(end: &mut E, bytes: &[u8]) -> usize {
    let (mut at, mut ended) = (0, 0);
    loop {
        let (used, next) = end.engine().receive(&bytes[at..]);
        at += used;
        let event = match next {
            Rx::More { .. } => return ended,
            Rx::Event(event) => Some(event),
            Rx::Payload { .. } | Rx::Discard { .. } => end.engine().payload_received(),
            Rx::Digest { .. } | Rx::Closed => panic!("no digest was agreed on, and nobody leaves"),
        };
        ended += usize::from(event.is_some_and(|event| end.follow(event)));
    }
}

/// Sends all that is there.
fn send<E: End>(end: &mut E, out: &mut Transmit) {
    out.clear();
    end.engine().transmit(out);
    for part in &out.parts {
        if let Part::Release { tag } = *part {
            end.sent(tag);
        }
    }
}

/// Sends a round of commands, and returns how many of the last round have ended.
fn turn<E: End>(end: &mut E, round: Option<usize>, bytes: &[u8], out: &mut Transmit) -> usize {
    let ended = take(end, bytes);
    if let Some(round) = round {
        end.submit(round);
    }
    send(end, out);
    ended
}

/// Data from the other end, until both were silent and then in each round.
struct Recorded {
    before: Vec<Vec<u8>>,
    rounds: Vec<Vec<u8>>,
}

/// Records the messages of the two ends: that of the target, and that of the host.
fn record(host: &mut impl End, target: &mut impl End) -> [Recorded; 2] {
    let mut recorded = [(); 2].map(|()| Recorded { before: Vec::new(), rounds: Vec::new() });
    let (mut asked, mut answered) = (Transmit::new(1024), Transmit::new(1024));
    loop {
        turn(host, None, &answered.headers, &mut asked);
        turn(target, None, &asked.headers, &mut answered);
        if asked.headers.is_empty() && answered.headers.is_empty() {
            break;
        }
        recorded[0].before.push(answered.headers.clone());
        recorded[1].before.push(asked.headers.clone());
    }
    for round in 0..ROUNDS {
        turn(host, Some(round), &answered.headers, &mut asked);
        assert_eq!(turn(target, None, &asked.headers, &mut answered), DEPTH);
        recorded[0].rounds.push(answered.headers.clone());
        recorded[1].rounds.push(asked.headers.clone());
    }
    recorded
}

/// Counted: what a host does for rounds of commands, each sent and answered.
#[inline(never)]
fn measured_host<E: End>(
    host: &mut E,
    answers: &[Vec<u8>],
    first: usize,
    out: &mut Transmit,
) -> usize {
    let mut ended = 0;
    for (round, answer) in (first..).zip(answers) {
        host.submit(round);
        send(host, out);
        ended += take(host, answer);
    }
    ended
}

/// Counted: what a target does for them.
#[inline(never)]
fn measured_target<E: End>(target: &mut E, commands: &[Vec<u8>], out: &mut Transmit) -> usize {
    commands.iter().map(|round| turn(target, None, round, out)).sum()
}

/// Has a fresh host do what the recorded one did, counted from the end of the warm-up on.
pub fn host<E: End>(new: impl Fn() -> E, mut target: impl End) {
    let [answers, _] = record(&mut new(), &mut target);
    let (mut host, mut out) = (new(), Transmit::new(1024));
    send(&mut host, &mut out);
    for answer in &answers.before {
        turn(&mut host, None, answer, &mut out);
    }
    let (warm_up, counted) = answers.rounds.split_at(WARM_UP);
    for (round, answer) in warm_up.iter().enumerate() {
        host.submit(round);
        send(&mut host, &mut out);
        assert_eq!(take(&mut host, answer), DEPTH);
    }
    assert_eq!(measured_host(&mut host, counted, WARM_UP, &mut out), COUNTED);
    println!("commands {COUNTED}");
}

/// The same for a target.
pub fn target<E: End>(mut host: impl End, new: impl Fn() -> E) {
    let [_, commands] = record(&mut host, &mut new());
    let (mut target, mut out) = (new(), Transmit::new(1024));
    for asked in &commands.before {
        turn(&mut target, None, asked, &mut out);
    }
    let (warm_up, counted) = commands.rounds.split_at(WARM_UP);
    for asked in warm_up {
        assert_eq!(turn(&mut target, None, asked, &mut out), DEPTH);
    }
    assert_eq!(measured_target(&mut target, counted, &mut out), COUNTED);
    println!("commands {COUNTED}");
}
