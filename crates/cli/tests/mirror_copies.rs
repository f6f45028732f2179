//! Legs and state files that are put back from older copies, and legs that were used apart, with
//! the real program: no read returns old data, and nothing is overwritten that only one leg has.
#![cfg(unix)]

use crate::nvme::NvmeHost;
use crate::support::{Scratch, Server, run, weft};
use crate::wire;
use std::path::Path;
use weft_proto::nvme::host::command;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Lba, Nsid};
use weft_proto::nvme_tcp::pdu::PduType;

const NQN: &str = "nqn.2026-01.example.weft:copies";
const LEGS: [&str; 2] = ["file:./a.img", "file:./b.img"];
/// The last MiB of a leg is the mirror's.
const DATA_BYTES: usize = 3 << 20;
/// So many blocks are written and read, far enough from each other that reads of all of them go to
/// both legs.
const BLOCKS: u64 = 48;
const APART: u64 = 127;

/// Makes a mirror of two new files that hold the same.
fn create(dir: &Path, more: &[&str]) {
    let legs = LEGS.map(|leg| format!("{leg},size=4MiB"));
    let args: Vec<&str> =
        ["mirror", "create", "--assume-clean"].into_iter().chain(more.iter().copied()).collect();
    let mut command = weft(dir, &args);
    command.args(legs);
    let created = run(command);
    assert_eq!(created.code(), Some(0), "{}", created.err);
}

fn url(options: &str) -> String {
    format!("mirror:{options}{}", LEGS.join(","))
}

fn arguments(url: &str) -> [&str; 8] {
    ["serve", url, "--listen", "nvme+tcp://127.0.0.1:0", "--nqn", NQN, "--threads", "1"]
}

/// A process that has the mirror open, and a host that uses it.
struct Mirror<'a> {
    dir: &'a Path,
    server: Server,
    host: NvmeHost,
    cid: u16,
}

impl<'a> Mirror<'a> {
    fn open(dir: &'a Path, options: &str) -> Self {
        let mut command = weft(dir, &arguments(&url(options)));
        command.stderr(std::fs::File::create(dir.join("mirror.log")).unwrap());
        let server = Server::spawn(command);
        let host = NvmeHost::new(server.address().parse().unwrap(), NQN, 1);
        Self { dir, server, host, cid: 1000 }
    }

    fn write(&mut self, value: u8) {
        for block in 0..BLOCKS {
            let write = command::write(Nsid(1), Lba(block * APART), 1, false);
            assert_eq!(self.host.run(&write, &[value; 512]), Status::SUCCESS, "block {block}");
        }
    }

    /// Reads every block some times, so that each leg is asked.
    fn holds(&mut self, value: u8) {
        for block in (0..4).flat_map(|_| 0..BLOCKS) {
            self.cid += 1;
            wire::Peer::put(
                &mut self.host.io,
                &wire::capsule_moving(
                    &command::read(Nsid(1), Lba(block * APART), 1),
                    self.cid,
                    512,
                ),
            );
            let pdu = wire::Peer::pdu(&mut self.host.io).expect("an answer");
            assert_eq!(pdu.kind(), PduType::C2H_DATA, "block {block}: {}", self.log());
            let at = pdu.header().pdo as usize;
            assert_eq!(
                pdu.0[at..at + 512],
                [value; 512],
                "block {block} holds old data: {}",
                self.log()
            );
            assert_eq!(wire::response(&mut self.host.io).status, Status::SUCCESS);
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("mirror.log")).unwrap()
    }

    fn await_log(&self, text: &str) {
        weft_testing::wait::until(text, || self.log().contains(text));
    }

    fn close(self) {
        let Self { server, host, .. } = self;
        drop(host);
        assert!(server.terminate().success());
    }
}

/// A run that writes this everywhere, and closes.
fn write(dir: &Path, options: &str, value: u8) {
    let mut mirror = Mirror::open(dir, options);
    mirror.write(value);
    mirror.close();
}

/// What a start that is refused says.
fn refusal(dir: &Path, options: &str) -> String {
    let ran = run(weft(dir, &arguments(&url(options))));
    assert!(
        ran.code() != Some(0) && !ran.out.contains("listening on"),
        "it started: {}{}",
        ran.out,
        ran.err
    );
    ran.message().to_owned()
}

fn data(dir: &Path, name: &str) -> Vec<u8> {
    std::fs::read(dir.join(name)).unwrap()[..DATA_BYTES].to_vec()
}

fn rename(dir: &Path, from: &str, to: &str) {
    std::fs::rename(dir.join(from), dir.join(to)).unwrap();
}

fn copy(dir: &Path, from: &str, to: &str) {
    std::fs::copy(dir.join(from), dir.join(to)).unwrap();
}

#[test]
fn a_leg_that_is_put_back_from_an_older_copy_is_named_and_copied_whole() {
    for options in ["", "state=./m.state,"] {
        let scratch = Scratch::new("mirror-older-leg");
        let dir = scratch.path();
        create(dir, if options.is_empty() { &[] } else { &["--state", "./m.state"] });
        write(dir, options, 1);
        copy(dir, "b.img", "b.copy");
        write(dir, options, 2);
        copy(dir, "b.copy", "b.img");
        let mut mirror = Mirror::open(dir, options);
        mirror.holds(2);
        mirror.await_log("so all of it is copied");
        mirror.holds(2);
        mirror.await_log("leg 1 (file:./b.img) is in sync again");
        mirror.holds(2);
        mirror.close();
        assert!(data(dir, "a.img") == data(dir, "b.img"), "the legs differ with {options:?}");
        let scrub = run(weft(dir, &["mirror", "scrub", LEGS[0], LEGS[1]]));
        assert_eq!(scrub.code(), Some(0), "{}{}", scrub.out, scrub.err);
    }
}

#[test]
fn a_state_file_that_is_put_back_from_an_older_copy_is_refused_by_name() {
    let scratch = Scratch::new("mirror-older-state");
    let (dir, options) = (scratch.path(), "state=./m.state,");
    create(dir, &["--state", "./m.state"]);
    write(dir, options, 1);
    copy(dir, "m.state", "m.copy");
    write(dir, options, 2);
    copy(dir, "m.state", "m.newer");
    copy(dir, "m.copy", "m.state");
    let said = refusal(dir, options);
    assert!(
        said.contains("the state file")
            && said.contains("m.state")
            && said.contains("is an older copy"),
        "{said}"
    );
    assert!(said.contains("put the newer one back") && said.contains("force=on"), "{said}");
    copy(dir, "m.newer", "m.state");
    let mut mirror = Mirror::open(dir, options);
    mirror.holds(2);
    mirror.close();
}

/// Starts by force from the leg that is here, writes and closes.
fn alone(dir: &Path, away: &str, value: u8) {
    rename(dir, away, "away");
    write(dir, "force=on,", value);
    rename(dir, "away", away);
}

#[test]
fn legs_that_were_used_apart_are_both_named_and_neither_is_overwritten_until_one_is_given_up() {
    let scratch = Scratch::new("mirror-apart");
    let dir = scratch.path();
    create(dir, &[]);
    write(dir, "", 1);
    alone(dir, "b.img", 2);
    alone(dir, "a.img", 3);
    alone(dir, "a.img", 4);
    let before =
        (std::fs::read(dir.join("a.img")).unwrap(), std::fs::read(dir.join("b.img")).unwrap());
    let said = refusal(dir, "");
    assert!(
        said.contains("leg 0 (file:./a.img)") && said.contains("leg 1 (file:./b.img)"),
        "{said}"
    );
    assert!(
        said.contains("used apart from each other")
            && said.contains("\"weft mirror replace\", which labels it again"),
        "{said}"
    );
    let after =
        (std::fs::read(dir.join("a.img")).unwrap(), std::fs::read(dir.join("b.img")).unwrap());
    assert!(before == after, "a start that is refused writes nothing");

    // Nor does the open mirror take the other leg back.
    rename(dir, "a.img", "away");
    let mut mirror = Mirror::open(dir, "force=on,");
    rename(dir, "away", "a.img");
    mirror.await_log("leg 0 (file:./a.img) has generation");
    assert!(mirror.log().contains("Keep one of the two"), "{}", mirror.log());
    mirror.holds(4);
    mirror.close();
    assert!(
        std::fs::read(dir.join("a.img")).unwrap() == before.0,
        "what only this leg has is overwritten"
    );

    let replaced =
        run(weft(dir, &["mirror", "replace", "--destroy-data", "--leg", "0", LEGS[1], LEGS[0]]));
    assert_eq!(replaced.code(), Some(0), "{}", replaced.err);
    let mut mirror = Mirror::open(dir, "force=on,");
    mirror.await_log("leg 0 (file:./a.img) is in sync again");
    mirror.holds(4);
    mirror.close();
    assert!(data(dir, "a.img") == data(dir, "b.img"));
}
