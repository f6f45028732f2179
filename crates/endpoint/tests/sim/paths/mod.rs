//! Devices that reconnect, and devices with several paths, whatever the protocol.

mod access;
mod bounds;
mod cached;
mod damaged;
mod gate;
mod late_writes;
mod multipath;
mod named;
mod others;
mod reconnect;
mod registered;
mod reserved;
mod restarted;
mod rig;
mod unflushed;
