//! Acceleration of virtual machines by KVM.
//!
//! Only a guest that boots shows it: inside another virtual machine the kernel may die in its
//! decompressor although qemu creates the machine. So the first machine tries it, and the outcome
//! stands in the cache.

use std::{
    env, fs,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::cache;

/// Environment variable: `kvm`, or anything else for emulation.
const VARIABLE: &str = "WEFT_LAB_ACCEL";

/// The file in the cache.
const FILE: &str = "accelerator";

/// How long a guest that tries KVM may take until it can run a case.
pub(super) const TRIAL: Duration = Duration::from_secs(20);

/// What machines run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accelerator {
    Emulation,
    /// As the environment says, or a guest has booted so.
    Kvm,
    /// No guest has booted here so far.
    UntriedKvm,
}

use Accelerator::{Emulation, Kvm, UntriedKvm};

/// What this process found, once it has looked.
static FOUND: Mutex<Option<Accelerator>> = Mutex::new(None);

/// The accelerator of the next machine.
pub(super) fn chosen() -> Accelerator {
    *FOUND.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(find)
}

/// Remembers whether a machine that tried KVM has booted.
pub(super) fn tried(booted: bool) {
    let found = if booted { Kvm } else { Emulation };
    *FOUND.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
    let Ok(root) = cache::root() else { return };
    // A failure to write only has the next run try again.
    let _ = fs::create_dir_all(&root);
    let _ = fs::write(root.join(FILE), if booted { "kvm\n" } else { "emulation\n" });
}

fn find() -> Accelerator {
    if let Ok(name) = env::var(VARIABLE) {
        return if name == "kvm" { Kvm } else { Emulation };
    }
    let remembered = cache::root().ok().and_then(|root| fs::read_to_string(root.join(FILE)).ok());
    match remembered.as_deref().map(str::trim) {
        Some("kvm") => Kvm,
        Some(_) => Emulation,
        None if fs::File::options().read(true).write(true).open("/dev/kvm").is_ok() => UntriedKvm,
        None => Emulation,
    }
}
