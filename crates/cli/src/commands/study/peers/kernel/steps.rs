//! Changes of objects of the kernel, in the order in which they are made.

use crate::commands::internal::study_kernel::modules;
use crate::commands::internal::study_kernel::step::KernelStep;

/// The place in which the kernel's targets are configured.
pub const CONFIGFS: &str = "/sys/kernel/config";

/// A list of changes.
#[derive(Default)]
pub struct KernelSteps(Vec<KernelStep>);

impl KernelSteps {
    pub fn into_inner(self) -> Vec<KernelStep> {
        self.0
    }

    /// Loads a module.
    pub fn load(mut self, module: &str, parameters: &[&str]) -> Self {
        let parameters = parameters.iter().map(|one| (*one).to_owned()).collect();
        self.0.push(KernelStep::Load { module: module.to_owned(), parameters });
        self
    }

    /// Loads modules that the kernel has.
    pub fn load_if_there(self, all: &[&str]) -> Self {
        let there = all.iter().filter(|module| modules::is_there(module));
        self.load_all(&there.copied().collect::<Vec<_>>())
    }

    /// Loads several modules, which have no parameters.
    pub fn load_all(self, all: &[&str]) -> Self {
        all.iter().fold(self, |steps, module| steps.load(module, &[]))
    }

    /// Runs a command; `undo` is the one that undoes it, if it needs one.
    pub fn run(mut self, command: Vec<String>, undo: Vec<String>) -> Self {
        self.0.push(KernelStep::Run { command, undo, in_part: false });
        self
    }

    /// Makes a directory.
    pub fn make(mut self, path: &str) -> Self {
        self.0.push(KernelStep::Make(path.to_owned()));
        self
    }

    /// Makes a directory that may be there already.
    pub fn share(mut self, path: &str) -> Self {
        self.0.push(KernelStep::Share(path.to_owned()));
        self
    }

    /// Writes attributes of a directory.
    pub fn set(mut self, directory: &str, values: &[(&str, &str)]) -> Self {
        self.0.extend(values.iter().map(|(name, value)| KernelStep::Write {
            path: format!("{directory}/{name}"),
            value: (*value).to_owned(),
            undo: None,
        }));
        self
    }

    /// Writes 1 to an attribute, and 0 at the end.
    pub fn switch_on(mut self, path: &str) -> Self {
        let path = path.to_owned();
        self.0.push(KernelStep::Write { path, value: "1".into(), undo: Some("0".into()) });
        self
    }

    /// Makes a link to a directory.
    pub fn link(mut self, path: &str, to: &str) -> Self {
        self.0.push(KernelStep::Link { path: path.to_owned(), to: to.to_owned() });
        self
    }
}
