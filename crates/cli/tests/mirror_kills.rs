//! A mirror at a size that people have, whose processes are killed again and again.
#![cfg(target_os = "linux")]

use crate::mirror::{CONTROL, Stage, await_status, kill, log, logged};
use crate::support::loads::{Loads, until_many_writes};
use crate::support::{Server, weft};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use weft_testing::wait::until;

/// How often something is killed.
const KILLS: usize = 12;

/// Writes all over the mirror, and reads at its end what was acknowledged.
fn load(dir: &Path, url: &str) -> Command {
    let what = ["--rw=randwrite", "--bs=4k", "--iodepth=32", "--io_size=128m", "--verify=crc32c"];
    weft(dir, &[&["bench", url, "--time_based=0"], &what[..]].concat())
}

/// What the log says when reads are balanced, before the number of bytes that were compared.
const EQUAL: &str = "the legs are equal; ";

/// The mirror is killed, with a leg or without. The next one compares what the marks name.
fn kill_mirror(stage: &mut Stage, mirror: Server, leg: Option<usize>) -> Server {
    kill(mirror);
    if let Some(leg) = leg {
        stage.kill(leg);
        stage.launch(leg);
    }
    let began = Instant::now();
    let mirror = stage.serve();
    until("the legs are equal", || log(stage.dir()).contains(EQUAL));
    println!(
        "{}: {} MiB were compared, and reads balanced after {:.1} s",
        if leg.is_some() { "the mirror and a leg are killed" } else { "the mirror is killed" },
        logged(stage.dir(), "", EQUAL) >> 20,
        began.elapsed().as_secs_f64()
    );
    mirror
}

/// A leg is killed and starts again.
fn kill_leg(stage: &mut Stage, leg: usize) {
    stage.kill(leg);
    until_many_writes(stage.dir(), CONTROL);
    stage.launch(leg);
}

fn live_through(scheme: &'static str) {
    let mut stage = Stage::new(scheme, "2049MiB");
    stage.keep_port();
    stage.make_equal();
    let mut mirror = stage.serve();
    let (dir, url) = (stage.dir().to_owned(), mirror.url().to_owned());
    let loads = Loads::start_when_served(move || load(&dir, &url));
    for round in 0..KILLS {
        until_many_writes(stage.dir(), CONTROL);
        let leg = round % 3;
        mirror = match round % 4 {
            0 | 2 => {
                kill_leg(&mut stage, leg);
                mirror
            }
            1 => kill_mirror(&mut stage, mirror, None),
            _ => kill_mirror(&mut stage, mirror, Some(leg)),
        };
        await_status(stage.dir(), &stage.legs, "legs in sync then: 0 1 2,");
    }
    loads.end();
    mirror.terminate();
    stage.are_equal("2GiB");
}

#[test]
#[ignore = "minutes: cargo xtask long mirror-kills"]
fn a_mirror_of_2_gib_lives_through_kills_of_its_processes() {
    live_through("nvme+tcp");
}
