//! In place of mDNS, in a program that is built without it.

use super::{FoundService, MdnsService};
use crate::Error;
use std::time::Duration;

const LEFT_OUT: Error = Error::LeftOut("mDNS");

/// Stands in for the announcer of services. It has no values.
#[derive(Debug)]
pub enum Announcer {}

impl Announcer {
    /// Refuses.
    ///
    /// # Errors
    /// [`Error::LeftOut`].
    pub fn start(_: Duration) -> Result<Announcer, Error> {
        Err(LEFT_OUT)
    }

    /// Nothing can ask for this.
    ///
    /// # Errors
    /// None.
    pub fn announce(&mut self, _: &MdnsService<'_>) -> Result<(), Error> {
        match *self {}
    }
}

/// As the one that it stands in for: users drop it to withdraw what it announced.
impl Drop for Announcer {
    fn drop(&mut self) {
        match *self {}
    }
}

/// Refuses.
///
/// # Errors
/// [`Error::LeftOut`].
pub fn search(_: &str, _: Duration, _: &mut dyn FnMut(FoundService)) -> Result<(), Error> {
    Err(LEFT_OUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_it_says_how_to_get_it() {
        let refused = [
            Announcer::start(Duration::ZERO).err(),
            search("_nvme-disc._tcp.local.", Duration::ZERO, &mut |_| ()).err(),
        ];
        for error in refused {
            let text = error.unwrap().to_string();
            assert_eq!(text, "this weft was built without mDNS; build it with --features full");
        }
        let _nobody_can = Announcer::announce;
    }
}
