//! The store of a group whose gateways are all in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use weft_ceph::ObjectError;
use weft_server::Error;
use weft_server::group::objects::{ObjectMessage, ObjectStore, ObjectWatch, OpenStore};

type Heard = Arc<dyn Fn(ObjectMessage) + Send + Sync>;

#[derive(Default)]
struct Object {
    generation: u64,
    bytes: Vec<u8>,
    attributes: BTreeMap<String, Vec<u8>>,
    watches: BTreeMap<u64, Heard>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Object>,
    kept_out: BTreeSet<String>,
    clients: u64,
    watches: u64,
}

/// The store. Clones are the same one; each [`open`](OpenStore::open) makes a client of it.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<State>>);

struct Client {
    store: MemoryStore,
    name: String,
}

struct MemoryWatch {
    store: MemoryStore,
    object: String,
    number: u64,
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Keeps a client out.
    pub fn keep_out(&self, client: &str) {
        self.lock().kept_out.insert(client.to_owned());
    }

    /// Returns whether no client has it open, and nobody watches anything in it.
    pub fn is_released(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl OpenStore for MemoryStore {
    fn open(&self) -> Result<Arc<dyn ObjectStore>, Error> {
        self.lock().clients += 1;
        let name = format!("client-{}", self.lock().clients);
        Ok(Arc::new(Client { store: self.clone(), name }))
    }
}

impl Client {
    /// What the store has, for a client that it does not keep out.
    fn state(&self) -> Result<MutexGuard<'_, State>, ObjectError> {
        let state = self.store.lock();
        if state.kept_out.contains(&self.name) {
            return Err(ObjectError::Blocklisted);
        }
        Ok(state)
    }
}

impl ObjectStore for Client {
    fn client(&self) -> Result<String, ObjectError> {
        Ok(self.name.clone())
    }

    fn read(&self, object: &str, most: usize) -> Result<Option<(u64, Vec<u8>)>, ObjectError> {
        match self.state()?.objects.get(object).filter(|object| object.generation > 0) {
            Some(object) if object.bytes.len() > most => Err(ObjectError::TooLong),
            found => Ok(found.map(|object| (object.generation, object.bytes.clone()))),
        }
    }

    fn generation(&self, object: &str) -> Result<u64, ObjectError> {
        Ok(self.state()?.objects.get(object).map_or(0, |object| object.generation))
    }

    fn replace(&self, object: &str, before: u64, bytes: &[u8]) -> Result<Option<u64>, ObjectError> {
        let mut state = self.state()?;
        let object = state.objects.entry(object.to_owned()).or_default();
        if object.generation != before {
            return Ok(None);
        }
        (object.generation, object.bytes) = (before + 1, bytes.to_vec());
        Ok(Some(before + 1))
    }

    fn set_attribute(&self, object: &str, name: &str, value: &[u8]) -> Result<(), ObjectError> {
        let mut state = self.state()?;
        let object = state.objects.entry(object.to_owned()).or_default();
        object.attributes.insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    fn attributes(&self, object: &str) -> Result<BTreeMap<String, Vec<u8>>, ObjectError> {
        let state = self.state()?;
        Ok(state.objects.get(object).map(|object| object.attributes.clone()).unwrap_or_default())
    }

    fn notify(
        &self,
        object: &str,
        message: &[u8],
        limit: Duration,
    ) -> Result<Vec<Vec<u8>>, ObjectError> {
        let watches: Vec<Heard> = {
            let state = self.state()?;
            let found = state.objects.get(object).ok_or(ObjectError::NotFound)?;
            found.watches.values().cloned().collect()
        };
        let (give, answers) = mpsc::channel();
        for heard in watches {
            let give = give.clone();
            let answer = Box::new(move |answer: &[u8]| give.send(answer.to_vec()).unwrap_or(()));
            heard(ObjectMessage { bytes: message.to_vec(), answer });
        }
        drop(give);
        let end = Instant::now() + limit;
        let next = || answers.recv_timeout(end.saturating_duration_since(Instant::now())).ok();
        Ok(std::iter::from_fn(next).collect())
    }

    fn watch(
        &self,
        object: &str,
        heard: Box<dyn Fn(ObjectMessage) + Send + Sync>,
    ) -> Result<Box<dyn ObjectWatch>, ObjectError> {
        let mut state = self.state()?;
        state.watches += 1;
        let number = state.watches;
        let watches = &mut state.objects.get_mut(object).ok_or(ObjectError::NotFound)?.watches;
        watches.insert(number, heard.into());
        let (store, object) = (self.store.clone(), object.to_owned());
        Ok(Box::new(MemoryWatch { store, object, number }))
    }

    fn fence(&self, client: &str) -> Result<(), ObjectError> {
        self.state()?.kept_out.insert(client.to_owned());
        Ok(())
    }

    fn catch_up(&self) -> Result<(), ObjectError> {
        self.state().map(drop)
    }
}

impl ObjectWatch for MemoryWatch {
    fn is_kept(&self) -> bool {
        true
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        let heard = self
            .store
            .lock()
            .objects
            .get_mut(&self.object)
            .and_then(|object| object.watches.remove(&self.number));
        drop(heard);
    }
}
