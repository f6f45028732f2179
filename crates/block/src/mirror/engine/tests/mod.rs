//! The engine over legs in memory: crashes at each step, and long histories of losses, crashes and returns.

mod crashes;
mod histories;
mod oracle;
mod rules;
mod unreadable;
mod world;
