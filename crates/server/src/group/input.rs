//! Inputs of the thread that runs a gateway.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use weft_endpoint::inventory::LiveInventory;
use weft_group::{GatewayEvent, Wish};

/// See the module.
pub enum Input {
    /// Something that the gateway has to know.
    Event(GatewayEvent),
    /// Hosts can be served, by this inventory.
    Serve(Arc<LiveInventory>),
    /// An administrator's order; told when it is in the record.
    Wish(Wish, Sender<()>),
    /// Give everything away; dropped when that is done.
    Leave(Sender<()>),
    /// Nothing can be executed any more; dropped when the gateway has left.
    Closed(Sender<()>),
    /// The server does not exist any more.
    End,
}
