//! Checks a workload before anything of it runs.

use super::job_spec::JobSpec;
use super::plan::Plan;
use crate::error::Error;
use std::sync::Arc;
use weft_block::Device;
use weft_io::cpu;

/// Checks that a run of `spec` on `device` can start: its options, the region, and the cores of its
/// loops. Nothing is read or written.
///
/// # Errors
/// An invalid option; a core that this process may not use.
pub fn check(device: &Device, spec: &JobSpec) -> Result<(), Error> {
    let (_, plan) = Plan::on(Arc::clone(device), spec, 0)?;
    let used = spec.cpus_allowed.iter().take(plan.threads as usize);
    used.copied().try_for_each(check_core)
}

/// Pins a thread to a core, which is the only way to know whether the system permits that.
fn check_core(core: usize) -> Result<(), Error> {
    match std::thread::spawn(move || cpu::pin_thread(core)).join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(cause)) => {
            Err(Error::io(format!("cannot run a loop on core {core} (cpus_allowed)"), cause))
        }
        Err(_) => Err(Error::Thread(format!("it could not be pinned to core {core}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::OpenOptions;

    #[test]
    fn what_could_not_start_is_refused() {
        let device = weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
        let check = |change: fn(&mut JobSpec)| {
            let mut spec = JobSpec::default();
            change(&mut spec);
            super::check(&device, &spec)
        };
        assert!(check(|_| ()).is_ok());
        // Larger than what the device takes at once.
        assert!(check(|spec| spec.bs_bytes = 1 << 20).is_ok());
        let wrong = |change: fn(&mut JobSpec)| match check(change) {
            Err(Error::Option { option, .. }) => option,
            other => panic!("{other:?}"),
        };
        assert_eq!(wrong(|spec| spec.size = Some(2 << 20)), "size");
        assert_eq!(wrong(|spec| spec.bs_bytes = 1000), "bs");
        assert_eq!(wrong(|spec| spec.offset = 1 << 20), "offset");
        if cfg!(target_os = "linux") {
            let on = |cores: &[usize]| {
                super::check(
                    &device,
                    &JobSpec { cpus_allowed: cores.to_vec(), ..JobSpec::default() },
                )
            };
            let said = on(&[100_000]).unwrap_err().to_string();
            assert!(said.contains("core 100000"), "{said}");
            // No loop would use the second one.
            assert!(on(&[cpu::allowed()[0], 100_000]).is_ok());
        }
    }
}
