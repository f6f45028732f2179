//! nvme-cli's verbs, on targets over the network, which have no device node here. They take a URL
//! where nvme-cli takes a device path: a subsystem URL for a controller device, a namespace URL for
//! a namespace device.

mod ana;
mod blocks;
mod connected;
mod data;
mod dsm;
mod effects;
mod feature;
mod feature_fields;
mod health;
mod hex;
mod lists;
mod log;
mod passthru;
mod payload;
mod protection;
mod refusal;
mod registers;
mod reservation;
mod reserve;
mod set_feature;
mod target;
mod telemetry;

use clap::Subcommand;
use weft_endpoint::Control;

use crate::process::exit::Failure;

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Read a log page by its identifier
    GetLog(log::GetLogArgs),
    /// Show the log page SMART / Health Information
    SmartLog(health::SmartLogArgs),
    /// Show the log page Error Information: the errors of this connection
    ErrorLog(health::ErrorLogArgs),
    /// Show the log page Asymmetric Namespace Access
    AnaLog(ana::AnaLogArgs),
    /// Show the log page Commands Supported and Effects
    EffectsLog(effects::EffectsLogArgs),
    /// Show the log page Changed Namespace List, of this connection
    ChangedNsListLog(lists::ChangedNsListLogArgs),
    /// Show which log pages a controller has
    SupportedLogPages(lists::SupportedLogPagesArgs),
    /// Keep a telemetry log page in a file
    TelemetryLog(telemetry::TelemetryLogArgs),
    /// Show the value of a feature
    GetFeature(feature::GetFeatureArgs),
    /// Set the value of a feature
    SetFeature(set_feature::SetFeatureArgs),
    /// Show the properties of a controller
    ShowRegs(registers::ShowRegsArgs),
    /// Show who is registered with a namespace, and who holds its reservation
    ResvReport(reservation::ResvReportArgs),
    /// Register with a namespace for its reservation, or end that
    ResvRegister(reserve::ResvRegisterArgs),
    /// Take the reservation of a namespace
    ResvAcquire(reserve::ResvAcquireArgs),
    /// Give up the reservation of a namespace, or clear it
    ResvRelease(reserve::ResvReleaseArgs),
    /// Send an admin command
    AdminPassthru(passthru::AdminPassthruArgs),
    /// Send an I/O command
    IoPassthru(passthru::IoPassthruArgs),
    /// Make durable what was written to a namespace
    Flush(blocks::FlushArgs),
    /// Read blocks
    Read(payload::ReadArgs),
    /// Write blocks
    Write(payload::WriteArgs),
    /// Compare blocks with data
    Compare(payload::CompareArgs),
    /// Write zeroes
    WriteZeroes(blocks::WriteZeroesArgs),
    /// Deallocate blocks, or say how they will be used
    Dsm(dsm::DsmArgs),
    /// Have the controller verify blocks
    Verify(blocks::VerifyArgs),
}

/// Runs a verb.
pub fn run(verb: &Verb, verbose: bool, control: &Control) -> Result<(), Failure> {
    match verb {
        Verb::GetLog(args) => log::get_log(args, control),
        Verb::SmartLog(args) => health::smart_log(args, control),
        Verb::ErrorLog(args) => health::error_log(args, control),
        Verb::AnaLog(args) => ana::ana_log(args, control),
        Verb::EffectsLog(args) => effects::effects_log(args, control),
        Verb::ChangedNsListLog(args) => lists::changed_ns_list_log(args, control),
        Verb::SupportedLogPages(args) => lists::supported_log_pages(args, verbose, control),
        Verb::TelemetryLog(args) => telemetry::telemetry_log(args, control),
        Verb::GetFeature(args) => feature::get_feature(args, control),
        Verb::SetFeature(args) => set_feature::set_feature(args, control),
        Verb::ShowRegs(args) => registers::show_regs(args, control),
        Verb::ResvReport(args) => reservation::resv_report(args, control),
        Verb::ResvRegister(args) => reserve::resv_register(args, control),
        Verb::ResvAcquire(args) => reserve::resv_acquire(args, control),
        Verb::ResvRelease(args) => reserve::resv_release(args, control),
        Verb::AdminPassthru(args) => passthru::admin_passthru(args, control),
        Verb::IoPassthru(args) => passthru::io_passthru(args, control),
        Verb::Flush(args) => blocks::flush(args, control),
        Verb::Read(args) => payload::read(args, control),
        Verb::Write(args) => payload::write(args, control),
        Verb::Compare(args) => payload::compare(args, control),
        Verb::WriteZeroes(args) => blocks::write_zeroes(args, control),
        Verb::Dsm(args) => dsm::dsm(args, control),
        Verb::Verify(args) => blocks::verify(args, control),
    }
}
