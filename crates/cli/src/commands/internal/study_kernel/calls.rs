//! Calls of the kernel by a supervisor.

use super::modules;
use super::step::FABRICS;
use crate::commands::study::program;
use crate::limits::KERNEL_STEP_S;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;
use weft_io::kernel_file;
use weft_server::programs;

/// The kernel, or a model of it.
pub trait Calls {
    /// The modules that are loaded, the newest first.
    fn modules(&self) -> Vec<String>;
    /// Loads a module, unless its driver is there.
    fn load(&self, module: &str, parameters: &[String]) -> Result<(), String>;
    /// Unloads a module. Returns whether it is gone.
    fn unload(&self, module: &str) -> bool;
    fn make(&self, path: &str) -> io::Result<()>;
    fn remove(&self, path: &str) -> io::Result<()>;
    fn write(&self, path: &str, value: &str) -> io::Result<()>;
    fn link(&self, to: &str, path: &str) -> io::Result<()>;
    fn unlink(&self, path: &str) -> io::Result<()>;
    /// Connects the NVMe host.
    fn connect(&self, options: &str) -> io::Result<()>;
    /// Deletes the controllers of a subsystem. Returns whether none is left.
    fn disconnect(&self, nqn: &str) -> bool;
    fn run(&self, command: &[String]) -> Result<(), String>;
    fn pause(&self, time: Duration);
}

/// The kernel of this machine.
pub struct LocalKernel;

/// Controllers of the NVMe host.
const CONTROLLERS: &str = "/sys/class/nvme";

/// The name of this program in commands.
const THIS: &str = "weft";

/// Most bytes of the kernel's answer to a connect.
const ANSWER_BYTES_MAX: u64 = 4096;

impl Calls for LocalKernel {
    fn modules(&self) -> Vec<String> {
        modules::loaded()
    }

    fn load(&self, module: &str, parameters: &[String]) -> Result<(), String> {
        if !modules::must_load(module) {
            return Ok(());
        }
        let command = [&["modprobe".to_owned(), module.to_owned()][..], parameters].concat();
        self.run(&command)
    }

    fn unload(&self, module: &str) -> bool {
        self.run(&["rmmod".to_owned(), module.to_owned()]).is_ok()
    }

    fn make(&self, path: &str) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn write(&self, path: &str, value: &str) -> io::Result<()> {
        kernel_file::write(path, value)
    }

    fn link(&self, to: &str, path: &str) -> io::Result<()> {
        std::os::unix::fs::symlink(to, path)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn connect(&self, options: &str) -> io::Result<()> {
        let mut fabrics = kernel_file::open(FABRICS)?;
        fabrics.write_all(options.as_bytes())?;
        // The kernel keeps the outcome until it is read.
        let mut answer = Vec::new();
        fabrics.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map(drop)
    }

    fn disconnect(&self, nqn: &str) -> bool {
        let all = std::fs::read_dir(CONTROLLERS).into_iter().flatten().flatten();
        let of_it = |place: &Path| {
            std::fs::read_to_string(place.join("subsysnqn")).is_ok_and(|name| name.trim() == nqn)
        };
        let left: Vec<_> = all.map(|entry| entry.path()).filter(|place| of_it(place)).collect();
        for controller in &left {
            // It may be on its way out.
            let delete = controller.join("delete_controller");
            let _ = kernel_file::write(&delete.to_string_lossy(), "1");
        }
        left.is_empty()
    }

    fn run(&self, command: &[String]) -> Result<(), String> {
        let [program, arguments @ ..] = command else { return Ok(()) };
        let mut command = match &program[..] {
            THIS => programs::this_program().map_err(|e| e.to_string())?,
            _ => programs::system(program),
        };
        command.args(arguments);
        program::output(program, command, Duration::from_secs(KERNEL_STEP_S)).map(drop)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
