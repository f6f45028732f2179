//! Opens the sources of namespaces.

use crate::config::desired::DesiredNamespace;
use std::sync::Arc;
use weft_block::file::CreatedFiles;
use weft_block::{Device, Error, ErrorKind, Opening};
use weft_endpoint::ConnectOptions;
use weft_endpoint::source::discovered;
use weft_endpoint::url::without_secret;

/// Sources that are opened side by side; each may have threads of its own while it is.
const OPENINGS: usize = 32;

/// Opens sources.
#[derive(Clone)]
pub struct Opener {
    /// How; with the time within which a local one completes an operation.
    pub options: ConnectOptions,
}

impl Opener {
    /// Refuses options that do not go together.
    pub fn check<'a>(
        &self,
        namespaces: impl Iterator<Item = &'a DesiredNamespace>,
    ) -> Result<(), Error> {
        if !self.options.paths.further.is_empty() && namespaces.count() > 1 {
            let text = "--path belongs to one source; serve several from a configuration file, where each namespace has its own paths";
            return Err(Error::new(ErrorKind::Usage, text));
        }
        Ok(())
    }

    /// The same, which notes the files that it creates.
    pub(super) fn noting(&self, created: &Arc<CreatedFiles>) -> Self {
        let options = ConnectOptions { created: Some(Arc::clone(created)), ..self.options.clone() };
        Self { options }
    }

    /// Opens the sources of namespaces side by side.
    ///
    /// # Errors
    /// That of one of them, with its URL.
    pub fn open<'a>(
        &self,
        namespaces: impl Iterator<Item = &'a DesiredNamespace> + Clone,
    ) -> Result<Vec<Device>, Error> {
        self.check(namespaces.clone())?;
        let begin = |namespace: &DesiredNamespace| {
            let url = namespace.source.clone();
            let mut options = self.options.clone();
            options.paths.further.extend(namespace.paths.iter().cloned());
            let shown = without_secret(&url);
            discovered::look_up(&url, &mut options).map_err(|e| e.of(&shown))?;
            let opening = weft_endpoint::begin(&url, &options).map_err(|e| e.of(&shown))?;
            Ok::<_, Error>(opening.map_err(move |e| e.of(&shown)))
        };
        let mut devices = Vec::new();
        let all: Vec<&DesiredNamespace> = namespaces.collect();
        for some in all.chunks(OPENINGS) {
            devices.extend(
                Opening::all(some.iter().copied().map(begin).collect::<Result<Vec<_>, _>>()?)
                    .wait()?,
            );
        }
        Ok(devices)
    }
}
