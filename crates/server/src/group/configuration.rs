//! What a group serves: a configuration in the cluster (`docs/ceph.md`), which any gateway changes
//! by compare-and-set and all follow.

use super::driver::Input;
use super::store::{Store, Word};
use super::{lock, thread};
use crate::config::group::{self, GroupConfig};
use crate::limits::GROUP_CONFIGURATION_BYTES_MAX;
use crate::management::protocol::{Code, Fault};
use crate::served::{Served, State};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_ceph::ObjectError;
use weft_endpoint::inventory::Inventory;
use weft_group::Event;
use weft_group::placement::Weights;

/// How often a gateway looks by itself whether the configuration has changed.
const LOOK: Duration = Duration::from_secs(5);

/// How often a change is tried again that others were faster than.
const TRIES: usize = 10;

/// What a group serves.
pub struct Configuration {
    store: Arc<Store>,
    known: Mutex<Known>,
    looks: Sender<()>,
    looking: Mutex<Option<Receiver<()>>>,
}

/// What is served here.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Counts the changes; 0: there was none yet.
    pub generation: u64,
    /// The configuration.
    pub text: String,
    /// Why this gateway does not serve what the cluster has.
    pub behind: Option<String>,
}

fn failed(e: &ObjectError) -> Fault {
    Fault::new(Code::Io, format!("whether the group's configuration was changed is not known: {e}"))
}

fn conflict() -> Fault {
    Fault::new(
        Code::Conflict,
        "another gateway has changed the group's configuration at the same moment: try again",
    )
}

fn behind(why: &str) -> Fault {
    let text = format!(
        "this gateway could not follow the group's last change, so it makes none: {why}; ask another gateway, or apply a whole configuration"
    );
    Fault::new(Code::Refused, text)
}

impl Configuration {
    /// That of a group with these objects.
    pub(super) fn new(store: Arc<Store>) -> Arc<Self> {
        let (looks, looking) = mpsc::channel();
        Arc::new(Self { store, known: Mutex::default(), looks, looking: Mutex::new(Some(looking)) })
    }

    /// Reads what is to be served from the start.
    pub(super) fn read(&self) -> Result<GroupConfig, Error> {
        let (generation, text) = self.fetch().map_err(|e| Error::new(ErrorKind::Io, e))?;
        if generation == 0 {
            tracing::warn!("the group has no configuration yet: weft apply gives it one");
        }
        let config = group::read(&text, "the group's configuration")?;
        *lock(&self.known) = Known { generation, text, behind: None };
        Ok(config)
    }

    fn fetch(&self) -> Result<(u64, String), String> {
        let found = self
            .store
            .configuration()
            .map_err(|e| format!("the group's configuration cannot be read: {e}"))?;
        let (generation, bytes) = found.unwrap_or_default();
        let text = String::from_utf8(bytes)
            .map_err(|_| "the group's configuration is damaged: it is no text".to_owned())?;
        Ok((generation, text))
    }

    /// Begins to follow what others change.
    pub(super) fn serve(
        self: &Arc<Self>,
        served: &Arc<Served>,
        inputs: Sender<Input>,
    ) -> Result<(), Error> {
        let Some(looking) = lock(&self.looking).take() else { return Ok(()) };
        let (this, served) = (Arc::downgrade(self), Arc::downgrade(served));
        let follow = move || {
            let mut weights = None;
            loop {
                let (Some(this), Some(served)) = (Weak::upgrade(&this), Weak::upgrade(&served))
                else {
                    return;
                };
                this.follow(&served);
                served.listen_late();
                let now = Some(weights_of(&served.inventory.now()));
                if weights != now {
                    let told = Event::Weights(now.clone().unwrap_or_default());
                    let _ = inputs.send(Input::Event(told));
                    weights = now;
                }
                drop((this, served));
                // Whether somebody says so or not.
                let _ = looking.recv_timeout(LOOK);
            }
        };
        thread("follow", follow)
    }

    /// Has the configuration looked at soon.
    pub fn look(&self) {
        // Nobody follows before the server serves.
        let _ = self.looks.send(());
    }

    /// What is served here.
    pub fn known(&self) -> Known {
        lock(&self.known).clone()
    }

    /// Serves what the cluster has, if that is something else.
    fn follow(&self, served: &Served) {
        let known = self.known();
        let unreadable = |e: ObjectError| format!("the group's configuration cannot be read: {e}");
        let followed = self.store.configuration_generation().map_err(unreadable).and_then(|generation| {
            if generation == known.generation && known.behind.is_none() {
                return Ok(None);
            }
            if generation < known.generation {
                return Err(format!(
                    "the configuration in the cluster is older ({generation}) than what is served ({}): it was removed or restored; start this gateway again",
                    known.generation
                ));
            }
            let (generation, text) = self.fetch()?;
            let config = group::read(&text, "the group's configuration").map_err(|e| e.to_string())?;
            let (is_news, adopt) = (|| self.is_news(generation), || self.adopt(generation, &text));
            served.follow(&config, is_news, adopt).map_err(|fault| fault.message)
        });
        match followed {
            Ok(Some(changed)) => tracing::info!(
                "the group's configuration was followed: {} changes",
                changed.changes.len()
            ),
            Ok(None) => {}
            Err(why) => {
                let mut known = lock(&self.known);
                if known.behind.as_ref() != Some(&why) {
                    tracing::error!(
                        "this gateway cannot follow the group's configuration, and tries again: {why}"
                    );
                }
                known.behind = Some(why);
            }
        }
    }

    /// Whether that is newer than what is served.
    fn is_news(&self, generation: u64) -> bool {
        let known = lock(&self.known);
        generation > known.generation || (generation == known.generation && known.behind.is_some())
    }

    /// Notes what is served.
    fn adopt(&self, generation: u64, text: &str) {
        *lock(&self.known) = Known { generation, text: text.to_owned(), behind: None };
    }

    /// Refuses to say that nothing differs where others may serve something else.
    pub fn confirm(&self) -> Result<(), Fault> {
        let known = self.known();
        match known.behind {
            Some(why) => Err(behind(&why)),
            None if self.store.configuration_generation().map_err(|e| failed(&e))?
                != known.generation =>
            {
                Err(conflict())
            }
            None => Ok(()),
        }
    }

    /// Makes a change for all gateways, before it is carried out here. `text`: as the administrator
    /// wrote it.
    ///
    /// # Errors
    /// [`Code::Conflict`]: another gateway has made one. Otherwise what the cluster said; the change may have been made then.
    pub fn commit(&self, wanted: &State, text: Option<&str>) -> Result<(), Fault> {
        let mut known = self.known();
        if let Some(why) = &known.behind {
            if text.is_none() {
                return Err(behind(why));
            }
            // A whole configuration does not depend on what is served here.
            known.generation = self.store.configuration_generation().map_err(|e| failed(&e))?;
        }
        let text = match text {
            Some(text) => text.to_owned(),
            None => {
                group::text(wanted, &known.text).map_err(|why| Fault::new(Code::Invalid, why))?
            }
        };
        if text.len() > GROUP_CONFIGURATION_BYTES_MAX {
            let why = format!(
                "the group's configuration would have {} bytes, and {GROUP_CONFIGURATION_BYTES_MAX} are the most",
                text.len()
            );
            return Err(Fault::new(Code::NoResources, why));
        }
        match self.store.configure(known.generation, text.as_bytes()) {
            Ok(Some(generation)) => *lock(&self.known) = Known { generation, text, behind: None },
            Ok(None) => return Err(conflict()),
            Err(e) => return Err(failed(&e)),
        }
        self.store.tell(Word::Configuration);
        self.look();
        Ok(())
    }

    /// Makes a change that depends on what is served, again if another gateway was faster.
    pub fn retried<T>(
        &self,
        served: &Served,
        mut change: impl FnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        // What others have changed is there, whether this gateway was told of it or not.
        self.follow(served);
        for _ in 1..TRIES {
            match change() {
                Err(fault) if fault.code == Code::Conflict => self.follow(served),
                other => return other,
            }
        }
        change()
    }

    /// What was committed cannot be served here.
    pub fn fell_behind(&self, why: &str) {
        lock(&self.known).behind = Some(why.to_owned());
    }
}

/// The namespaces of each ANA group.
fn weights_of(inventory: &Inventory) -> Weights {
    let mut weights = Weights::new();
    inventory.namespaces().for_each(|namespace| *weights.entry(namespace.group).or_default() += 1);
    weights
}
