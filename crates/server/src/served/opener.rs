//! Opens the sources of namespaces.

use crate::config::desired::DesiredNamespace;
use std::sync::Arc;
use weft_block::file::CreatedFiles;
use weft_block::grammar::{self, Source};
use weft_block::{Device, Error, ErrorKind, Opening, waiting};
use weft_endpoint::source::discovered;
use weft_endpoint::url::nbd::NBD_SCHEMES;
use weft_endpoint::url::without_secret;
use weft_endpoint::{ConnectOptions, is_remote};

/// Sources that are opened side by side; each may have threads of its own while it is.
const OPENINGS: usize = 32;

/// The scheme of lists that may lack a source.
const MIRROR: &str = "mirror";

/// The filter before what is only read.
const READ_ONLY: &str = "readonly:";

/// Returns whether a source is refused only as long as another server has it: it has no queues
/// left, or accepts one client at a time, as servers of NBD do.
fn is_for_now(url: &str, kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::InUse | ErrorKind::NoResources => true,
        ErrorKind::TimedOut => NBD_SCHEMES.iter().any(|scheme| url.starts_with(scheme)),
        _ => false,
    }
}

/// Text about the wait for these sources to be opened.
fn sources_of(namespaces: &[&DesiredNamespace]) -> String {
    let first = namespaces.first().map_or_else(String::new, |one| without_secret(&one.source));
    match namespaces.len() {
        0 | 1 => format!("{first} to be opened"),
        n => format!("{first} and {} other sources to be opened", n - 1),
    }
}

/// Returns a device with a filter in front of it.
pub type Front = Arc<dyn Fn(Device) -> Device + Send + Sync>;

/// Opens sources.
#[derive(Clone)]
pub struct SourceOpener {
    /// Options of opening, with the time within which a local one completes an operation.
    pub options: ConnectOptions,
    /// The filter in front of each source.
    pub front: Option<Front>,
}

impl SourceOpener {
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
        Self { options, front: self.front.clone() }
    }

    /// Looks whether the remote sources of namespaces answer, for reading and only for this moment:
    /// another server may have them. Sources in use are not a fault, and neither is a mirror that
    /// lacks a leg.
    pub fn look<'a>(
        &self,
        namespaces: impl Iterator<Item = &'a DesiredNamespace>,
    ) -> Result<(), Error> {
        let mut remote = Vec::new();
        for namespace in namespaces {
            let sources = grammar::sources(&namespace.source).into_iter();
            let is_needed = |of: &Source<'_>| !of.above.contains(&MIRROR) && is_remote(of.url);
            remote.extend(sources.filter(is_needed).map(|of| (of.url, &namespace.paths)));
        }
        for some in remote.chunks(OPENINGS) {
            let begun: Vec<_> =
                some.iter().map(|(url, paths)| self.begin_look(url, paths)).collect();
            for ((url, _), opening) in some.iter().zip(begun) {
                match opening.and_then(Opening::wait) {
                    Err(e) if !is_for_now(url, e.kind()) => return Err(e.of(&without_secret(url))),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn begin_look(&self, url: &str, paths: &[String]) -> Result<Opening, Error> {
        let mut options = self.options.clone();
        options.paths.further.extend(paths.iter().cloned());
        options.paths.reserve = false;
        discovered::look_up(url, &mut options)?;
        weft_endpoint::begin(&format!("{READ_ONLY}{url}"), &options)
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
        let _waiting = waiting::begin(|| sources_of(&all));
        for some in all.chunks(OPENINGS) {
            devices.extend(
                Opening::all(some.iter().copied().map(begin).collect::<Result<Vec<_>, _>>()?)
                    .wait()?,
            );
        }
        Ok(match &self.front {
            Some(front) => devices.into_iter().map(|device| front(device)).collect(),
            None => devices,
        })
    }
}
