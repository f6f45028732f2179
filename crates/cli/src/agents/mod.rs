//! Studies of several machines: agents, and the study's connections to them.
//!
//! [`tls`] and [`identity`] have the agent's certificate and the connection's encryption, [`key`]
//! and [`proof`] the shared key and how both ends prove that they have it, [`channel`] messages
//! over that connection with their time limits. An agent is [`config`], [`server`] and [`session`]; a
//! study has [`address`], [`known_agents`], [`connection`], [`fleet`] and [`work`].
//! Decision 27 has the reasons.

pub mod address;
pub mod channel;
pub mod config;
pub mod connection;
pub mod fleet;
pub mod identity;
pub mod key;
mod known_agents;
mod proof;
pub mod server;
pub mod session;
#[cfg(test)]
mod tests;
mod tls;
mod work;

/// Port of an agent, if none is named.
pub const PORT: u16 = 4430;
