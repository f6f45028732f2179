//! Choice of the candidates: a seed gives each a place in a row by its text and not by its place,
//! so that one which only moved is drawn again.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result};
use lab_edited::{Splice, Texts, splice};

use super::find::{Candidate, KINDS, candidates};

/// What tests do not reach without hardware, a cluster or another system, and what is no part of
/// what is shipped.
const LEFT_OUT: [&str; 5] =
    ["crates/ceph/", "crates/sim/", "crates/testing/", "crates/load/", "crates/bench/"];

/// Words in the paths of sources that are for tests, for hardware or for other systems.
const OTHERS: [&str; 9] = [
    "/tests",
    "/testing",
    "windows",
    "macos",
    "/model.rs",
    "/native/",
    "io/src/sim/",
    "tls/src/in_kernel",
    "/rdma/verbs/",
];

/// All candidates, in the order in which these seeds draw them, in turn.
pub fn rows(sources: &Texts, seeds: &[u64]) -> Result<Vec<Candidate>> {
    let rows: Result<Vec<_>> = seeds.iter().map(|seed| row(sources, *seed)).collect();
    Ok(in_turn(rows?))
}

/// The first of each, then the second of each, and so on.
fn in_turn<T>(rows: impl IntoIterator<Item = Vec<T>>) -> Vec<T> {
    let mut rows: Vec<_> = rows.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    while rows.iter().any(|row| row.len() > 0) {
        all.extend(rows.iter_mut().filter_map(Iterator::next));
    }
    all
}

/// All candidates, in the order in which this seed draws them: one of each kind in turn.
pub fn row(sources: &Texts, seed: u64) -> Result<Vec<Candidate>> {
    let (mut kinds, mut seen) = (KINDS.map(|_| Vec::new()), BTreeMap::<String, usize>::new());
    for (path, text) in sources.iter().filter(|(path, _)| is_drawn_from(path)) {
        for candidate in candidates(path, text)? {
            let kind = KINDS.iter().position(|kind| *kind == candidate.kind).context("a kind")?;
            // Those that read the same are told apart by their order.
            let key = key(&candidate);
            let before = seen.entry(key.clone()).or_default();
            kinds[kind].push((rank(&format!("{seed} {before} {key}")), candidate));
            *before += 1;
        }
    }
    kinds.iter_mut().for_each(|all| all.sort_by_key(|(rank, _)| *rank));
    Ok(in_turn(kinds).into_iter().map(|(_, candidate)| candidate).collect())
}

fn is_drawn_from(path: &str) -> bool {
    !LEFT_OUT.iter().any(|directory| path.starts_with(directory))
        && !OTHERS.iter().any(|word| path.contains(word))
}

/// What a candidate reads like.
fn key(candidate: &Candidate) -> String {
    let Candidate { function, context, text, changed, .. } = candidate;
    [function, context, text, changed].map(|part| part.as_str()).join("\0")
}

/// The place of a candidate in the row of its kind.
fn rank(key: &str) -> u64 {
    // FNV-1a, and the end of SplitMix64, so that all bits depend on all bytes.
    let sum = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (sum ^ sum >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Takes candidates from the row until there are `count` that do not overlap.
pub fn take(row: &mut VecDeque<Candidate>, taken: &mut Vec<Candidate>, count: usize) {
    while taken.len() < count {
        let Some(next) = row.pop_front() else { return };
        let overlaps = |other: &Candidate| other.path == next.path && other.line == next.line;
        if !taken.iter().any(overlaps) {
            taken.push(next);
        }
    }
}

/// The module of each crate that has mutants, without the mutants themselves.
const CHOICE: &str = "\
//! The mutant of this process, from the environment, and those that it reaches, in a directory.

use std::sync::{OnceLock, atomic::{AtomicBool, Ordering}};

/// A mutant of this crate.
pub(crate) struct Mutant(u32, AtomicBool);

impl Mutant {
    pub(crate) const fn new(number: u32) -> Self {
        Self(number, AtomicBool::new(false))
    }

    #[inline]
    pub(crate) fn is(&self) -> bool {
        static CHOSEN: OnceLock<u32> = OnceLock::new();
        if !self.1.load(Ordering::Relaxed) {
            self.reached();
        }
        let chosen = || std::env::var(\"WEFT_MUTANT\").ok()?.parse().ok();
        *CHOSEN.get_or_init(|| chosen().unwrap_or(0)) == self.0
    }

    #[cold]
    fn reached(&self) {
        self.1.store(true, Ordering::Relaxed);
        if let Some(directory) = std::env::var_os(\"WEFT_MUTANTS_REACHED\") {
            let file = std::path::Path::new(&directory).join(self.0.to_string());
            if std::fs::write(file, []).is_err() {
                std::process::abort();
            }
        }
    }
}

";

/// What the compiler would refuse when it generates code, as it would panic: that is for the tests.
/// It stands on the first line, so that all others keep their numbers.
const ALLOWED: &str = "#![allow(arithmetic_overflow, unconditional_panic)]";

/// The files that differ when these mutants are in them, which have numbers from 1 on.
pub fn plant(sources: &Texts, mutants: &[(usize, Candidate)]) -> Result<Texts> {
    let mut changed = Texts::new();
    for path in mutants.iter().map(|(_, mutant)| &mutant.path) {
        if changed.contains_key(path) {
            continue;
        }
        let here = mutants.iter().filter(|(_, mutant)| mutant.path == *path);
        let splices = here.map(|(number, mutant)| Splice {
            bytes: mutant.bytes.clone(),
            text: mutant.guarded(&format!("crate::mutant::M{number}.is()")),
        });
        changed.insert(path.clone(), splice(&sources[path], splices.collect())?);
    }
    for (number, mutant) in mutants {
        let (source, _) = mutant.path.split_once("/src/").context("a source")?;
        let roots = ["lib", "main"].map(|name| format!("{source}/src/{name}.rs"));
        let root = roots.iter().find(|root| sources.contains_key(*root)).context("a root")?;
        let module = format!("{source}/src/mutant.rs");
        if !changed.contains_key(&module) {
            let text = changed.get(root).unwrap_or(&sources[root]);
            let text = format!("{ALLOWED} {text}\nmod mutant;\n");
            changed.insert(root.clone(), text);
        }
        let module = changed.entry(module).or_insert_with(|| CHOICE.into());
        *module += &format!("pub(crate) static M{number}: Mutant = Mutant::new({number});\n");
    }
    Ok(changed)
}
