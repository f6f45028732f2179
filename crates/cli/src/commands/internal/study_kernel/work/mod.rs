//! The changes that were made, in groups, and their way back.

use super::calls::Calls;
use super::step::{KernelStep, Undo};
use std::io;
use std::time::Duration;

/// Attempts to undo a change. The kernel lets go of some objects late: of a module once its last
/// connection is closed, of a disk once the last program has closed it.
const TRIES: u32 = 50;

/// The same of a command, which waits by itself.
const COMMAND_TRIES: u32 = 2;

/// Time between two of them.
const PAUSE: Duration = Duration::from_millis(100);

/// All changes. They last until they are undone.
pub struct KernelWork<C> {
    calls: C,
    /// The ways back of each group, in the order of the changes.
    groups: Vec<(u32, Vec<Undo>)>,
    /// Those of objects that several groups use.
    common: Vec<Undo>,
}

impl<C: Calls> KernelWork<C> {
    pub fn new(calls: C) -> Self {
        Self { calls, groups: Vec::new(), common: Vec::new() }
    }

    /// Makes changes, as a part of a group. Returns their ways back.
    ///
    /// # Errors
    /// The first that failed; those before it are undone.
    pub fn perform(&mut self, group: u32, steps: &[KernelStep]) -> Result<Vec<Undo>, String> {
        let mut made = Vec::new();
        for step in steps {
            let before = made.len();
            if let Err(why) = self.make(step, &mut made) {
                // The command that undoes a failed one fails where there is nothing to undo.
                let (commands, mut rest): (Vec<Undo>, Vec<Undo>) =
                    made.drain(before..).partition(|undo| matches!(undo, Undo::Run(_)));
                self.back(commands);
                made.append(&mut rest);
                let (mut left, own): (Vec<Undo>, Vec<Undo>) =
                    made.into_iter().partition(Undo::is_common);
                left.extend(self.back(own));
                // What is left is undone at the end.
                self.keep(group, left);
                return Err(format!("`{step}` failed: {why}"));
            }
        }
        self.keep(group, made.clone());
        Ok(made)
    }

    /// Takes over a change that another process made.
    pub fn adopt(&mut self, group: u32, made: Undo) {
        self.keep(group, vec![made]);
    }

    /// Undoes the changes of a group, the last one first. Those that could not be undone stay in
    /// the group.
    ///
    /// # Errors
    /// Commands that were tried in vain.
    pub fn undo(&mut self, group: u32) -> Result<(), String> {
        let at = self.groups.iter().position(|(of, _)| *of == group);
        let made = at.map(|at| self.groups.remove(at).1).unwrap_or_default();
        let left = self.back(made);
        let all: Vec<String> = left.iter().rev().map(|undo| format!("`{undo}`")).collect();
        self.keep(group, left);
        if all.is_empty() { Ok(()) } else { Err(all.join(", ")) }
    }

    /// Undoes all changes, the last one first, and those that several groups need at the end.
    ///
    /// # Errors
    /// As of [`KernelWork::undo`].
    pub fn undo_all(&mut self) -> Result<(), String> {
        let groups: Vec<u32> = self.groups.iter().rev().map(|(group, _)| *group).collect();
        let mut left: Vec<String> =
            groups.into_iter().filter_map(|group| self.undo(group).err()).collect();
        let common = std::mem::take(&mut self.common);
        self.common = self.back(common);
        left.extend(self.common.iter().rev().map(|undo| format!("`{undo}`")));
        if left.is_empty() { Ok(()) } else { Err(left.join(", ")) }
    }

    fn keep(&mut self, group: u32, made: Vec<Undo>) {
        let (common, made): (Vec<Undo>, Vec<Undo>) = made.into_iter().partition(Undo::is_common);
        self.common.extend(common);
        if made.is_empty() {
            return;
        }
        match self.groups.iter_mut().find(|(of, _)| *of == group) {
            Some((_, all)) => all.extend(made),
            None => self.groups.push((group, made)),
        }
    }

    /// Makes a change, and notes its way back. One that can take effect although it fails is noted
    /// before.
    fn make(&self, step: &KernelStep, made: &mut Vec<Undo>) -> Result<(), String> {
        let calls = &self.calls;
        let said = |outcome: io::Result<()>| outcome.map_err(|e| e.to_string());
        match step {
            KernelStep::Load { module, parameters } => {
                let before = calls.modules();
                let outcome = calls.load(module, parameters);
                let mut new = calls.modules();
                new.retain(|module| !before.contains(module));
                made.extend(Some(Undo::Unload(new)).filter(|undo| *undo != Undo::Unload(vec![])));
                outcome
            }
            KernelStep::Make(path) => {
                said(calls.make(path))?;
                made.push(Undo::Remove(path.clone()));
                Ok(())
            }
            KernelStep::Share(path) => match calls.make(path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                outcome => {
                    said(outcome)?;
                    made.push(Undo::RemoveShared(path.clone()));
                    Ok(())
                }
            },
            KernelStep::Write { path, value, undo } => {
                said(calls.write(path, value))?;
                let undo = undo.clone();
                made.extend(undo.map(|value| Undo::Write { path: path.clone(), value }));
                Ok(())
            }
            KernelStep::Link { path, to } => {
                said(calls.link(to, path))?;
                made.push(Undo::Unlink(path.clone()));
                Ok(())
            }
            KernelStep::Connect { nqn, options } => {
                made.push(Undo::Disconnect(nqn.clone()));
                said(calls.connect(options))
            }
            KernelStep::Run { command, undo, in_part } => {
                let outcome = calls.run(command);
                if (outcome.is_ok() || *in_part) && !undo.is_empty() {
                    made.push(Undo::Run(undo.clone()));
                }
                outcome
            }
        }
    }

    /// Undoes changes, the last one first. Returns those that could not be undone.
    fn back(&self, made: Vec<Undo>) -> Vec<Undo> {
        let mut left: Vec<Undo> =
            made.into_iter().rev().filter(|one| !self.is_undone(one)).collect();
        left.reverse();
        left
    }

    fn is_undone(&self, undo: &Undo) -> bool {
        let tries = if matches!(undo, Undo::Run(_)) { COMMAND_TRIES } else { TRIES };
        (0..tries).any(|tried| {
            if tried > 0 {
                self.calls.pause(PAUSE);
            }
            self.try_to(undo)
        })
    }

    fn try_to(&self, undo: &Undo) -> bool {
        let calls = &self.calls;
        let gone = |outcome: io::Result<()>| match outcome {
            Ok(()) => true,
            Err(e) => e.kind() == io::ErrorKind::NotFound,
        };
        match undo {
            Undo::Unload(modules) => {
                let loaded = calls.modules();
                let left = modules.iter().filter(|module| loaded.contains(module));
                let failed = left.filter(|module| !calls.unload(module)).count();
                failed == 0
            }
            Undo::Remove(path) | Undo::RemoveShared(path) => gone(calls.remove(path)),
            Undo::Write { path, value } => gone(calls.write(path, value)),
            Undo::Unlink(path) => gone(calls.unlink(path)),
            Undo::Disconnect(nqn) => calls.disconnect(nqn),
            Undo::Run(command) => calls.run(command).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests;
