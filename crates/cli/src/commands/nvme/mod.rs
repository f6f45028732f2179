//! nvme-cli's verbs, on targets over the network, which have no device node here. Where nvme-cli
//! takes the path of a device, these take a URL: of a subsystem where that is of a controller, and
//! of a namespace where that is of a namespace.

mod ana;
mod blocks;
mod connected;
mod data;
mod effects;
mod feature;
mod feature_fields;
mod health;
mod hex;
mod lists;
mod log;
mod passthru;
mod refusal;
mod registers;
mod reservation;
mod reserve;
mod set_feature;
mod telemetry;

use self::connected::Connected;
use crate::commands::identify::Output;
use crate::connection::{Address, ConnectArgs};
use crate::exit::Failure;
use clap::{Arg, Args, Subcommand};
use weft_endpoint::Control;

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
    /// Show the log page Changed Namespace List: what has changed during this connection
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
    Read(blocks::ReadArgs),
    /// Write blocks
    Write(blocks::WriteArgs),
    /// Compare blocks with data
    Compare(blocks::CompareArgs),
    /// Write zeroes
    WriteZeroes(blocks::WriteZeroesArgs),
    /// Deallocate blocks, or say how they will be used
    Dsm(blocks::DsmArgs),
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
        Verb::Read(args) => blocks::read(args, control),
        Verb::Write(args) => blocks::write(args, control),
        Verb::Compare(args) => blocks::compare(args, control),
        Verb::WriteZeroes(args) => blocks::write_zeroes(args, control),
        Verb::Dsm(args) => blocks::dsm(args, control),
        Verb::Verify(args) => blocks::verify(args, control),
    }
}

/// What a verb is about.
#[derive(Args, Debug)]
struct Target {
    #[command(flatten)]
    address: Address,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl Target {
    fn connect(&self, control: &Control) -> Result<Connected, Failure> {
        Connected::new(self.address.url()?, &self.connect.options(1, control)?)
    }
}

/// How to print.
#[derive(Args, Debug)]
struct Format {
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output_format: Output,
    /// Print what the controller sent, like -o binary
    #[arg(short = 'b', long)]
    raw_binary: bool,
}

impl Format {
    fn output(&self) -> Output {
        if self.raw_binary { Output::Binary } else { self.output_format }
    }
}

/// Leaves letters to a verb's own options, which scripts for nvme-cli use: options of the address
/// and of the connection that have one of them keep their long names.
fn letters(own: &'static str) -> impl FnMut(Arg) -> Arg {
    const ADDRESS: [&str; 4] = ["transport", "traddr", "trsvcid", "nqn"];
    move |arg| {
        let is_shared =
            ADDRESS.contains(&arg.get_id().as_str()) || arg.get_help_heading().is_some();
        match arg.get_short() {
            Some(letter) if is_shared && own.contains(letter) => arg.short(None::<char>),
            _ => arg,
        }
    }
}

/// A number as nvme-cli takes it: decimal, hexadecimal after 0x, or octal after 0.
fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let (digits, radix) = match (text.strip_prefix("0x").or(text.strip_prefix("0X")), text) {
        (Some(digits), _) => (digits, 16),
        (None, "0") => (text, 10),
        (None, _) => text.strip_prefix('0').map_or((text, 10), |digits| (digits, 8)),
    };
    let bits = size_of::<T>() * 8;
    u64::from_str_radix(digits, radix)
        .ok()
        .filter(|_| !digits.starts_with('+'))
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("give a number of at most {bits} bits, such as 12 or 0xc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        for (text, value) in
            [("0", 0), ("12", 12), ("0x1F", 31), ("017", 15), ("255", 255), ("0XfF", 255)]
        {
            assert_eq!(number::<u8>(text), Ok(value), "{text}");
        }
        for text in ["", "256", "-1", "0x", "+1", "0x+1", "08", "1k"] {
            assert!(number::<u8>(text).is_err(), "{text}");
        }
        assert_eq!(number::<u64>("0xffffffffffffffff"), Ok(u64::MAX));
    }
}
