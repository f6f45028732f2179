//! The clients of clusters that this process has: one for each configuration and user, which all
//! images of them share.

use crate::native::{RadosClient, library};
use crate::reason::{self, OpeningStep};
use crate::url::CephAccess;
use core::time::Duration;
use std::sync::{Arc, Weak};
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind};

/// A client, while somebody uses it. Whoever connects holds the lock.
type ClusterSlot = Arc<Lock<Weak<RadosClient>>>;

static PLACES: Lock<Vec<(CephAccess, ClusterSlot)>> = Lock::new(Vec::new());

/// One is configured at a time: that uses memory of the library that all share.
static CONFIGURING: Lock<()> = Lock::new(());

/// The client of this configuration and user, which is connected if it is the first. Waits for the
/// cluster, for at most `limit`; `url` is for messages.
pub(crate) fn client(
    url: &str,
    access: &CephAccess,
    limit: Duration,
) -> Result<Arc<RadosClient>, Error> {
    let library =
        library().map_err(|why| Error::new(ErrorKind::Unsupported, format!("{url}: {why}")))?;
    let place = place(access);
    let mut client = place.lock();
    if let Some(client) = client.upgrade() {
        return Ok(client);
    }
    let configured = {
        let _one = CONFIGURING.lock();
        RadosClient::configured(library, access, limit)
            .map_err(|error| reason::opening(url, OpeningStep::Configuration, error))?
    };
    let connected =
        configured.connect().map_err(|error| reason::opening(url, OpeningStep::Connect, error))?;
    let connected = Arc::new(connected);
    *client = Arc::downgrade(&connected);
    Ok(connected)
}

fn place(access: &CephAccess) -> ClusterSlot {
    let mut places = PLACES.lock();
    // Those that nobody uses or connects are forgotten.
    places.retain(|(of, place)| {
        of == access
            || Arc::strong_count(place) > 1
            || place.try_lock().is_some_and(|client| client.strong_count() > 0)
    });
    if let Some((_, place)) = places.iter().find(|(of, _)| of == access) {
        return Arc::clone(place);
    }
    let place = ClusterSlot::default();
    places.push((access.clone(), Arc::clone(&place)));
    place
}
