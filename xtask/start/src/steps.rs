//! The table of steps.

/// The reason why a step belongs to `cargo xtask test` or only to `cargo xtask test --all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It proves the product and needs Rust and a C compiler only: it belongs to `cargo xtask test`.
    Product,
    /// It reads the sources and runs nothing.
    Sources,
    /// It needs root, or programs from Debian's packages.
    Packages,
    /// It needs another compiler, or another build of the dependencies.
    Toolchain,
    /// It runs in an emulated machine or under Wine.
    Emulation,
    /// It takes more than a minute of processor time, and proves what smaller tests show.
    Minute,
}

/// A step of a run.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its name, on the command line and in the table of results.
    pub name: &'static str,
    /// The reason for its place.
    pub why: Why,
    /// Its purpose, for `docs/contributing/writing-tests.md`.
    pub about: &'static str,
}

/// All steps, in the order in which they are announced.
pub const STEPS: &[Step] = &[
    step("workspace", Why::Product, "the tests of all crates, and the structure tests"),
    step(
        "sim",
        Why::Product,
        "the simulator: all seeds that once failed, and a part of a fixed range",
    ),
    step("examples", Why::Product, "the examples in the documentation of the crates"),
    step("alone", Why::Product, "tests that look at the clock or at their own process"),
    step("fmt", Why::Sources, "`cargo fmt --check`"),
    step("fmt-fuzz", Why::Sources, "the same of the fuzz targets"),
    step("fmt-lab", Why::Sources, "the same of the tools in `lab/crates`"),
    step("fmt-python", Why::Sources, "the same of the binding of Python"),
    step("licences", Why::Sources, "sources and licences of all dependencies"),
    step("packing", Why::Sources, "the crates for a registry, packed and not built"),
    step("clippy", Why::Sources, "all targets, warnings denied"),
    step("clippy-plain", Why::Sources, "what `cargo build` builds, which has fewer features"),
    step("clippy-lab", Why::Sources, "the same of the tools in `lab/crates`"),
    step("doc", Why::Sources, "`cargo doc`, warnings denied"),
    step("doc-lab", Why::Sources, "the same of the tools in `lab/crates`"),
    step("planted-build", Why::Sources, "the simulator with all planted bugs compiles"),
    step("sim-more", Why::Minute, "the simulator: the rest of the fixed range"),
    step("peers", Why::Packages, "tests with Ceph, and others that take long (`xtask/apart.txt`)"),
    step("lab-setup", Why::Packages, "fetches the virtual machine's kernel and programs"),
    step("lab", Why::Emulation, "the Linux kernel's host and target, in virtual machines"),
    step("lab-gateways", Why::Emulation, "the Linux kernel's hosts on a group of gateways"),
    step("windows-setup", Why::Toolchain, "fetches a toolchain for Windows, and Wine"),
    step("windows-build", Why::Toolchain, "builds what `windows` runs"),
    step("windows", Why::Emulation, "tests, the study and interoperation, under Wine"),
    step("aarch64", Why::Toolchain, "compiles the program for 64-bit ARM, without linking it"),
    step("python", Why::Toolchain, "builds the wheel for Python, and runs its tests"),
    step("fuzz-build", Why::Toolchain, "builds what `fuzz` runs"),
    step("fuzz", Why::Minute, "each fuzz target for some seconds"),
    step("models", Why::Toolchain, "every interleaving of threads in the lock-free parts"),
    step("lab-tools", Why::Minute, "the tests of the tools in `lab/crates`"),
    step("race", Why::Minute, "a very short run of every row of the race"),
    step("gates", Why::Minute, "counts of system calls, copies and instructions against limits"),
];

impl Why {
    /// The reason in the words of the page.
    pub fn words(self) -> &'static str {
        match self {
            Self::Product => "proves the product",
            Self::Sources => "only reads the sources",
            Self::Packages => "needs root or packages",
            Self::Toolchain => "needs another toolchain or build",
            Self::Emulation => "needs emulation",
            Self::Minute => "takes more than a minute",
        }
    }
}

const fn step(name: &'static str, why: Why, about: &'static str) -> Step {
    Step { name, why, about }
}

/// The step of that name.
pub fn named(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_table() {
        let rows: Vec<String> = STEPS
            .iter()
            .map(|step| format!("| `{}` | {} | {} |\n", step.name, step.why.words(), step.about))
            .collect();
        let table = format!("| step | why | what |\n|---|---|---|\n{}", rows.concat());
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/contributing/writing-tests.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(&table), "the page lacks this table:\n{table}");
    }
}
