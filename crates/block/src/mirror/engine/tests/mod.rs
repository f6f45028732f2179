//! The engine over legs in memory: crashes at each step, and long histories of losses, crashes and
//! returns.

mod copies;
mod crashes;
mod evicting;
mod histories;
mod hot;
mod oracle;
mod rules;
mod sound;
mod unreadable;
mod version1;
mod version2;
mod version3;
mod world;
