//! The list of the long proofs: cases of the lab that say so of themselves, and tests of the
//! crates.

use std::process::Command;

use anyhow::Result;
use xtask::{published::packing, sh, tools};

/// Fresh seeds of the proof `sim`.
const FRESH_SEEDS: &str = "20000";

/// Seeds among which every planted bug has to be found. The bug that is hardest to find takes
/// 1,215.
const PLANTED_SEEDS: &str = "3000";

/// A proof: a program whose exit status is the result, and whose output holds the figures.
pub struct Proof {
    /// By which it is asked for.
    pub name: String,
    /// Its subject, in a sentence or two.
    pub about: String,
    /// The program.
    pub command: Command,
    /// It begins with the program of an earlier version, which is built first.
    pub needs_earlier: bool,
}

impl Proof {
    pub fn new(name: &str, about: &str, command: Command) -> Self {
        Self { name: name.into(), about: about.into(), command, needs_earlier: false }
    }
}

/// Tests of the crates that are long: name, what it shows, and the crate, the test program and the
/// test.
const TESTS: [(&str, &str, [&str; 3]); 16] = [
    (
        "connections",
        "2,016 connections of one host to one target, reads and writes on all of them: memory and processor time of both ends.",
        ["weft", "long", "connections::two_thousand_connections_of_one_host_all_work"],
    ),
    (
        "visits",
        "A host connects, reads a block and disconnects: ten thousand times over NVMe/TCP, four thousand times over iSCSI and over NBD. Neither end \
         holds more memory, descriptors or threads after all of them than after half.",
        ["weft", "long", "churn::ten_thousand_visits_leave_nothing_behind"],
    ),
    (
        "soak",
        "A target for four hours (or `WEFT_SOAK_MINUTES`): hosts come and go, all of them come back at once, namespaces grow and shrink, the configuration is applied again, \
         disks are copied and connections captured. No operation of the hosts that stay fails, and neither they nor the target hold more memory, \
         descriptors or threads in the end than after a tenth of the time.",
        ["weft", "long", "soak::hours_leave_nothing_behind"],
    ),
    (
        "fairness",
        "The latency of a host that reads 4 KiB at depth 1 while another host writes 1 MiB at depth 128, on a target with one core.",
        ["weft", "long", "fairness::the_latency_of_a_reader_beside_a_writer_of_large_blocks"],
    ),
    (
        "conformance",
        "libiscsi's conformance suites on weft and on tgt: how many tests pass, fail and do not apply.",
        ["weft", "cli", "iscsi_conformance::the_families_on_tgt"],
    ),
    (
        "mirror-killed",
        "A mirror over three NVMe/TCP targets: each of them and the mirror itself are killed under load. The next one waits as long as the targets may \
         go on, and takes the mirror; what was acknowledged is there, and an old leg is not started from.",
        ["weft", "cli", "mirror::legs_and_the_mirror_itself_are_killed_under_load_by_nvme"],
    ),
    (
        "mirror-kills",
        "A mirror of 2 GiB over three NVMe/TCP targets under writes all over it: its process and those of its legs are killed twelve times. No write \
         that was acknowledged is lost, and the legs are equal in the end. How much was compared after each kill of the mirror, and how long it took \
         until reads were balanced, with the half minute for which the targets may go on.",
        ["weft", "cli", "mirror_kills::a_mirror_of_2_gib_lives_through_kills_of_its_processes"],
    ),
    (
        "fuse-ring",
        "The tests of files by FUSE with a kernel that offers io_uring for them (Linux 6.14), which is switched on for that.",
        ["weft", "cli", "fuse::ring::all_that_holds_of_files_holds_over_io_uring"],
    ),
    (
        "capi-header",
        "The header of libweft is what cbindgen makes of the sources. cbindgen is built for that.",
        ["weft-capi", "capi", "header::is_what_cbindgen_makes"],
    ),
    (
        "capi-open",
        "The time in which libweft opens a RAM disk for a program in C. Each run compares it with the time of a thread.",
        ["weft-capi", "capi", "programs::how_long_a_ram_disk_opens"],
    ),
    (
        "study-spdk",
        "SPDK's target and weft's in one study, with weft's initiator and with `spdk_nvme_perf`. `SPDK_DIR` names the directory in which SPDK was built.",
        ["weft", "cli", "study_peers::spdk_is_measured_beside_weft"],
    ),
    (
        "nbdkit-tests",
        "The tests of nbdkit's own plugins and filters with weft's plugin in the place of `memory` and `file`. `NBDKIT_DIR` names the sources of nbdkit \
         1.32; python3-libnbd is installed.",
        ["weft-capi", "capi", "nbdkit::own_tests::weft_is_a_plugin_like_memory_and_file"],
    ),
    (
        "fio-engine",
        "fio with weft's engine, on memory, a file, NVMe/TCP, iSCSI and NBD: what it writes is verified. `FIO_DIR` names the sources of fio 3.33, in which \
         `./configure` was run.",
        ["weft-capi", "capi", "fio::every_kind_of_job_is_right_on_every_kind_of_source"],
    ),
    (
        "fio-lane",
        "fio with weft's engine as a lane of a study, compared with weft's initiator on the same device. `WEFT_FIO_ENGINE` names libfio-weft.so.",
        ["weft", "cli", "study_fio::fio_with_wefts_engine_measures_any_source"],
    ),
    (
        "fio-mistakes",
        "Mistakes in the arguments of fio with weft's engine, and operations that fail. `FIO_DIR` as above.",
        ["weft-capi", "capi", "fio::mistakes_and_failures_are_told"],
    ),
    (
        "fio-rate",
        "The rate of fio with weft's engine, compared with that of `weft bench`. `FIO_DIR` as above.",
        ["weft-capi", "capi", "fio::the_rate_beside_that_of_weft_bench"],
    ),
];

/// Tests of upgrades from the earlier version, and back.
const UPGRADES: [(&str, &str, [&str; 3]); 3] = [
    (
        "upgrade-target",
        "A target with hosts of the earlier version and of this one, over NVMe/TCP, iSCSI and NBD: this version takes over from the earlier one, and the \
         earlier one again. No operation fails, what was written is read, and a registration stays.",
        ["weft", "long", "upgrade::a_target_is_upgraded_and_goes_back"],
    ),
    (
        "upgrade-mirror",
        "A mirror over three iSCSI targets: each of them, and the mirror itself, is replaced by this version and by the earlier one again. No operation \
         of its hosts fails, and the legs are equal in the end.",
        ["weft", "long", "upgrade::a_mirror_is_upgraded_and_goes_back"],
    ),
    (
        "upgrade-gateways",
        "A group of three gateways in front of Ceph: one after the other is replaced by this version, and by the earlier one again. No operation of a \
         host that knows all of them fails.",
        ["weft", "cli", "gateways::gateways_are_upgraded_one_by_one_and_go_back"],
    ),
];

/// All of them, in the order in which they run.
pub fn all() -> Result<Vec<Proof>> {
    let mut proofs: Vec<Proof> =
        TESTS.iter().map(|(name, about, test)| of_test(name, about, *test)).collect();
    proofs.extend(
        UPGRADES.iter().map(|(name, about, test)| Proof {
            needs_earlier: true,
            ..of_test(name, about, *test)
        }),
    );
    proofs.extend([of_fresh_seeds()?, of_fresh_properties(), of_planted_bugs()?, of_mutants()?]);
    proofs.extend(of_vendored()?);
    proofs.push(of_aarch64()?);
    proofs.extend(of_registry());
    proofs.push(of_tutorials());
    proofs.push(of_python()?);
    proofs.extend(of_lab()?);
    Ok(proofs)
}

/// An ignored test, in a release build, alone.
fn of_test(name: &str, about: &str, [package, program, test]: [&str; 3]) -> Proof {
    let mut command = sh::cargo("test");
    command.args(["--quiet", "--release", "--locked", "--package", package, "--test", program]);
    command.args(["--", "--ignored", "--exact", "--nocapture", test]);
    Proof::new(name, about, command)
}

/// Seeds of the simulator that nobody has run before.
fn of_fresh_seeds() -> Result<Proof> {
    let about = "The simulator (`docs/contributing/simulator.md`) runs seeds that the time chooses, over all scenes that seeds choose by themselves, and names those that fail.";
    let command = sh::chore(&[
        "sim",
        "--keep-going",
        "--count",
        FRESH_SEEDS,
        "--jobs",
        &sh::cores().to_string(),
    ])?;
    Ok(Proof::new("sim", about, command))
}

/// The tests of the crates with property tests, among which are all of these, with a seed that
/// nobody has run before.
fn of_fresh_properties() -> Proof {
    let about = "The property tests of the engines and of groups of gateways, with a fresh seed (`docs/contributing/testing.md`).";
    let mut command = sh::cargo("test");
    command.args(["--quiet", "--locked", "--package", "weft-proto", "--package", "weft-group"]);
    command.env("WEFT_FRESH_SEEDS", "1");
    Proof::new("properties", about, command)
}

/// The simulator's proof that it can fail. It needs a build of its own, with the bugs.
fn of_planted_bugs() -> Result<Proof> {
    let about = "The simulator finds each of the bugs that are planted in the engines (`docs/contributing/simulator.md`): how many seeds that took, and \
                 what it said.";
    let command = sh::chore(&["sim", "--planted", "--from", "0", "--count", PLANTED_SEEDS])?;
    Ok(Proof::new("planted", about, command))
}

/// The tests' proof that they can fail. It needs a build of its own, with the mutants.
fn of_mutants() -> Result<Proof> {
    let about = "Sixty mutants, each a change of one line that a seed draws \
                 (`docs/contributing/writing-tests.md`): which test notices it, of those that reach it, \
                 and which mutants survive.";
    let command = sh::chore(&["mutants"])?;
    Ok(Proof::new("mutants", about, command))
}

/// Unit tests and models for another processor, with its compiler and C library.
fn of_aarch64() -> Result<Proof> {
    let about = "The program, linked and started, the unit tests of the engines, of I/O and of devices, and the models of lock-free code, for 64-bit ARM under qemu-user.";
    let command = sh::chore(&["aarch64", "test"])?;
    Ok(Proof::new("aarch64", about, command))
}

/// The crates that a registry gets, each built from what it gets, and their documentation.
fn of_registry() -> [Proof; 2] {
    let mut docs = sh::cargo("doc");
    docs.args(["--locked", "--no-deps", "--package", "weft-endpoint"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    [
        Proof::new(
            "registry",
            "The crates for a registry, each built from what is packed.",
            packing(),
        ),
        Proof::new(
            "registry-docs",
            "The documentation of `weft-endpoint` alone, as a registry builds it.",
            docs,
        ),
    ]
}

/// The examples of the pages for contributors.
fn of_tutorials() -> Proof {
    let about = "The examples of a new export and of a new source (`docs/contributing/add-an-export.md` and `add-a-source.md`) in a copy of the sources: \
                 they are built, and their tests pass.";
    let mut command = tools::cargo("test");
    command.args(["--quiet", "--package", "lab-edited", "--lib", "--", "--ignored", "--nocapture"]);
    Proof::new("tutorials", about, command)
}

/// The package for Python with a client that others wrote.
fn of_python() -> Result<Proof> {
    let about = "The tests of the package for Python, with those of truenas_pynvmeof_client against a target of `weft.testing`. `PYNVMEOF_DIR` names its sources.";
    let command = sh::chore(&["package", "python", "--test"])?;
    Ok(Proof::new("python", about, command))
}

/// The tests of TLS with OpenSSL in the program, for which it is built (with perl and make): on
/// this machine, and for Windows.
fn of_vendored() -> Result<[Proof; 2]> {
    const ARGUMENTS: [&str; 4] = ["--package", "weft-tls", "--features", "vendored-openssl"];
    let mut here = sh::cargo("test");
    here.args(["--quiet", "--locked"]).args(ARGUMENTS);
    let windows = sh::chore(&[&["windows", "test"], &ARGUMENTS[..]].concat())?;
    Ok([
        Proof::new(
            "vendored-openssl",
            "The tests of TLS with OpenSSL built with weft and linked in.",
            here,
        ),
        Proof::new(
            "vendored-openssl-windows",
            "The same for Windows, under Wine, which has no other OpenSSL.",
            windows,
        ),
    ])
}

/// The long cases of the lab, each in a machine of its own. The lab needs Linux.
fn of_lab() -> Result<Vec<Proof>> {
    if !cfg!(target_os = "linux") {
        return Ok(Vec::new());
    }
    let cases = sh::output(&mut sh::chore(&["lab", "list"])?)?;
    let proof = |(name, about): (&str, &str)| {
        let command = sh::chore(&["lab", "run", &format!("lab/cases/{name}.sh")])?;
        Ok(Proof::new(name, about, command))
    };
    cases.lines().filter_map(|line| line.split_once('\t')).map(proof).collect()
}
