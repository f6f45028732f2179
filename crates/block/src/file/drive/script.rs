//! A machine with drives and volumes, in place of Windows.

use super::answers::Extent;
use super::claim::Calls;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use weft_io::drives::{DriveAccess, DriveQuestion, VolumeOrder};

/// An answer of 32-bit numbers.
pub(super) fn numbers(of: &[u32]) -> Vec<u8> {
    of.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub(super) fn extents_of(extents: &[Extent]) -> Vec<u8> {
    let mut answer = numbers(&[extents.len() as u32, 0]);
    for Extent { drive, start, end } in extents {
        answer.extend(numbers(&[*drive, 0]));
        answer.extend(start.to_le_bytes());
        answer.extend((end - start).to_le_bytes());
    }
    answer
}

pub(super) fn description(vendor: &str, product: &str, serial: &str) -> Vec<u8> {
    let mut answer = vec![0; 36];
    for (at, text) in [(12, vendor), (16, product), (24, serial)] {
        if !text.is_empty() {
            let offset = answer.len() as u32;
            answer[at..at + 4].copy_from_slice(&offset.to_le_bytes());
            answer.extend(text.bytes().chain([0]));
        }
    }
    answer
}

/// Answers to questions: bytes or a code.
pub(super) type Answers = Vec<(DriveQuestion, Result<Vec<u8>, i32>)>;

/// See the module: the answers of Windows, and a record of the calls.
#[derive(Default)]
pub(super) struct Script {
    /// Drives and volumes, by the paths that open them.
    pub(super) answers: BTreeMap<String, Answers>,
    /// Failures and their number: a path, the call, the code.
    pub(super) failures: RefCell<Vec<(&'static str, &'static str, i32, u32)>>,
    pub(super) volumes: Vec<&'static str>,
    pub(super) mounted: BTreeMap<&'static str, &'static str>,
    done: RefCell<Vec<String>>,
}

/// Path of an open object. Closing it is on the record, if it was opened for writing.
pub(super) struct Opened(pub(super) String);

impl Script {
    fn does(&self, path: &str, what: &str) -> io::Result<()> {
        let mut failures = self.failures.borrow_mut();
        let failure = failures
            .iter_mut()
            .find(|(whom, how, _, times)| *whom == path && *how == what && *times > 0);
        if let Some((_, _, code, times)) = failure {
            *times -= 1;
            return Err(io::Error::from_raw_os_error(*code));
        }
        self.done.borrow_mut().push(format!("{what} {path}"));
        Ok(())
    }

    /// Returns the calls, without those that change nothing.
    pub(super) fn done(&self) -> Vec<String> {
        let done = self.done.borrow();
        done.iter().filter(|what| !what.starts_with("Ask ")).cloned().collect()
    }
}

impl Calls for Script {
    type Open = Opened;

    fn open(&self, path: &str, access: DriveAccess) -> io::Result<Opened> {
        if !self.answers.contains_key(path) {
            return Err(io::Error::from_raw_os_error(2));
        }
        self.does(path, &format!("{access:?}"))?;
        Ok(Opened(path.to_owned()))
    }

    fn ask(&self, open: &Opened, question: DriveQuestion) -> io::Result<Vec<u8>> {
        let answer = self.answers[&open.0].iter().find(|(asked, _)| *asked == question);
        let unknown = Err(1);
        let answer = answer.map_or(&unknown, |(_, answer)| answer);
        answer.clone().map_err(io::Error::from_raw_os_error)
    }

    fn order(&self, open: &Opened, order: VolumeOrder) -> io::Result<()> {
        self.does(&open.0, &format!("{order:?}"))
    }

    fn volumes(&self) -> io::Result<Vec<String>> {
        Ok(self.volumes.iter().map(|volume| format!(r"{volume}\")).collect())
    }

    fn names(&self, volume: &str) -> (Vec<String>, Option<String>) {
        let mounted = self.mounted.get(volume).map(|at| (*at).to_owned());
        (mounted.into_iter().collect(), Some(format!(r"{volume}\")))
    }

    fn system_volumes(&self) -> io::Result<Vec<String>> {
        Ok(vec![r"\\.\C:".into(), r"\\?\GLOBALROOT\boot".into()])
    }

    fn machine(&self) -> Option<String> {
        Some("machine".into())
    }

    fn pause(&self) {
        self.done.borrow_mut().push("pause".into());
    }
}
