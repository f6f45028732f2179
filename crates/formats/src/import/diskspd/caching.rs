//! `-S`: which caches are bypassed.

use super::super::ImportedJob;
use super::options::refusal;

/// The caches that a command line asks for.
#[derive(Debug, Default)]
pub(super) struct Caching {
    /// `-Su`: bypass the cache of the system.
    unbuffered: bool,
    /// `-Sw`: bypass that of the disk, too.
    write_through: bool,
}

impl Caching {
    /// The letters behind `-S`; none is the same as `u`.
    pub fn add(&mut self, letters: &str) -> Result<(), String> {
        self.unbuffered |= letters.is_empty();
        for letter in letters.chars() {
            match letter {
                'b' => self.unbuffered = false,
                'u' => self.unbuffered = true,
                'w' => self.write_through = true,
                'h' => (self.unbuffered, self.write_through) = (true, true),
                'm' => return Err(refusal("-Sm")),
                'r' => return Err(refusal("-Sr")),
                _ => return Err("use letters of bhmruw".into()),
            }
        }
        Ok(())
    }

    /// The options of a job.
    pub fn set(&self, job: &mut ImportedJob) {
        job.set("direct", u8::from(self.unbuffered).to_string());
        if self.write_through {
            job.set("sync", "dsync");
        }
    }
}
