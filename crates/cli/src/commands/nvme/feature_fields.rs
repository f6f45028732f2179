//! Features in nvme-cli's words: their names, and the fields of their values (Base §5.27.1, NVM
//! §4.1.3).

use std::io::{Result, Write};
use weft_proto::nvme::feature::FeatureId;

/// Name of a feature.
pub fn name(id: FeatureId) -> &'static str {
    match id {
        FeatureId::ASYNC_EVENT_CONFIGURATION => "Async Event Configuration",
        FeatureId::READ_RECOVERY_LEVEL => "Read Recovery Level",
        FeatureId::LBA_STATUS_INTERVAL => "LBA Status Interval",
        FeatureId::HOST_BEHAVIOR_SUPPORT => "Host Behavior",
        FeatureId::SANITIZE_CONFIG => "Sanitize",
        FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION => "Endurance Event Group Configuration",
        FeatureId::SOFTWARE_PROGRESS_MARKER => "Software Progress",
        FeatureId::NAMESPACE_WRITE_PROTECTION => "Namespace Write Protect",
        id => id.text().unwrap_or("Unknown"),
    }
}

/// Prints the capabilities of a feature: the value for Select 3.
pub fn capabilities(out: &mut impl Write, value: u32) -> Result<()> {
    for (bit, text) in [(0, "saveable"), (1, "per-namespace"), (2, "changeable")] {
        if value >> bit & 1 != 0 {
            writeln!(out, "  Feature is {text}")?;
        }
    }
    Ok(())
}

/// The fields of a value.
pub fn explain(out: &mut impl Write, id: FeatureId, value: u32, data: &[u8]) -> Result<()> {
    let enabled = |bit: u32| if value >> bit & 1 == 0 { "Disabled" } else { "Enabled" };
    let truth = |bit: u32| if value >> bit & 1 == 0 { "False" } else { "True" };
    let byte = |shift: u32| value >> shift & 0xff;
    match id {
        FeatureId::ARBITRATION => arbitration(out, value),
        FeatureId::POWER_MANAGEMENT => {
            let hint = value >> 5 & 7;
            writeln!(out, "\tWorkload Hint (WH): {hint} - {}", workload(hint))?;
            writeln!(out, "\tPower State   (PS): {}", value & 0x1f)
        }
        FeatureId::TEMPERATURE_THRESHOLD => temperature_threshold(out, value),
        FeatureId::ERROR_RECOVERY => {
            writeln!(
                out,
                "\tDeallocated or Unwritten Logical Block Error Enable (DULBE): {}",
                enabled(16)
            )?;
            writeln!(
                out,
                "\tTime Limited Error Recovery                          (TLER): {} ms",
                (value & 0xffff) * 100
            )
        }
        FeatureId::VOLATILE_WRITE_CACHE => {
            writeln!(out, "\tVolatile Write Cache Enable (WCE): {}", enabled(0))
        }
        FeatureId::NUMBER_OF_QUEUES => {
            let (completion, submission) = ((value >> 16) + 1, (value & 0xffff) + 1);
            writeln!(out, "\tNumber of IO Completion Queues Allocated (NCQA): {completion}")?;
            writeln!(out, "\tNumber of IO Submission Queues Allocated (NSQA): {submission}")
        }
        FeatureId::INTERRUPT_COALESCING => {
            writeln!(out, "\tAggregation Time     (TIME): {} usec", byte(8) * 100)?;
            writeln!(out, "\tAggregation Threshold (THR): {}", byte(0) + 1)
        }
        FeatureId::INTERRUPT_VECTOR_CONFIGURATION => {
            writeln!(out, "\tCoalescing Disable (CD): {}", truth(16))?;
            writeln!(out, "\tInterrupt Vector   (IV): {}", value & 0xffff)
        }
        FeatureId::WRITE_ATOMICITY_NORMAL => {
            writeln!(out, "\tDisable Normal (DN): {}", truth(0))
        }
        FeatureId::ASYNC_EVENT_CONFIGURATION => events(out, value),
        _ => explain_more(out, id, value, data),
    }
}

/// The same of features that are rarer with targets over a network.
fn explain_more(out: &mut impl Write, id: FeatureId, value: u32, data: &[u8]) -> Result<()> {
    let enabled = |bit: u32| if value >> bit & 1 == 0 { "Disabled" } else { "Enabled" };
    let truth = |bit: u32| if value >> bit & 1 == 0 { "False" } else { "True" };
    match id {
        FeatureId::AUTONOMOUS_POWER_STATE_TRANSITION => {
            writeln!(out, "\tAutonomous Power State Transition Enable (APSTE): {}", enabled(0))
        }
        FeatureId::HOST_MEMORY_BUFFER => {
            writeln!(out, "\tEnable Host Memory (EHM): {}", enabled(0))
        }
        FeatureId::KEEP_ALIVE_TIMER => {
            writeln!(out, "\tKeep Alive Timeout (KATO) in milliseconds: {value}")
        }
        FeatureId::NON_OPERATIONAL_POWER_STATE => writeln!(
            out,
            "\tNon-Operational Power State Permissive Mode Enable (NOPPME): {}",
            truth(0)
        ),
        FeatureId::READ_RECOVERY_LEVEL => {
            writeln!(out, "\tRead Recovery Level (RRL): {}", value & 0xf)
        }
        FeatureId::HOST_BEHAVIOR_SUPPORT => match data.first() {
            Some(first) => {
                let set = if first & 1 == 0 { "False" } else { "True" };
                writeln!(out, "\tHost Behavior Support: {set}")
            }
            None => Ok(()),
        },
        FeatureId::SANITIZE_CONFIG => {
            writeln!(out, "\tNo-Deallocate Response Mode (NODRM) : {}", value & 1)
        }
        FeatureId::COMMAND_SET_PROFILE => {
            writeln!(out, "\tI/O Command Set Profile: {}", truth(0))
        }
        FeatureId::SOFTWARE_PROGRESS_MARKER => {
            writeln!(out, "\tPre-boot Software Load Count (PBSLC): {}", value & 0xff)
        }
        FeatureId::HOST_IDENTIFIER => match data.first_chunk::<8>() {
            Some(id) => {
                writeln!(out, "\tHost Identifier (HOSTID):  {}", u64::from_le_bytes(*id))
            }
            None => Ok(()),
        },
        FeatureId::RESERVATION_NOTIFICATION_MASK => {
            writeln!(out, "\tMask Reservation Preempted Notification  (RESPRE): {}", truth(3))?;
            writeln!(out, "\tMask Reservation Released Notification   (RESREL): {}", truth(2))?;
            writeln!(out, "\tMask Registration Preempted Notification (REGPRE): {}", truth(1))
        }
        FeatureId::RESERVATION_PERSISTENCE => {
            writeln!(out, "\tPersist Through Power Loss (PTPL): {}", truth(0))
        }
        FeatureId::NAMESPACE_WRITE_PROTECTION => {
            writeln!(out, "\tNamespace Write Protect: {}", write_protection(value))
        }
        _ => Ok(()),
    }
}

fn arbitration(out: &mut impl Write, value: u32) -> Result<()> {
    let weight = |shift: u32| (value >> shift & 0xff) + 1;
    writeln!(out, "\tHigh Priority Weight   (HPW): {}", weight(24))?;
    writeln!(out, "\tMedium Priority Weight (MPW): {}", weight(16))?;
    writeln!(out, "\tLow Priority Weight    (LPW): {}", weight(8))?;
    match value & 7 {
        7 => writeln!(out, "\tArbitration Burst       (AB): No limit"),
        power => writeln!(out, "\tArbitration Burst       (AB): {}", 1 << power),
    }
}

fn workload(hint: u32) -> &'static str {
    match hint {
        0 => "No Workload",
        1 => "Extended Idle Period with a Burst of Random Writes",
        2 => "Heavy Sequential Writes",
        _ => "Reserved",
    }
}

fn temperature_threshold(out: &mut impl Write, value: u32) -> Result<()> {
    let kind = value >> 20 & 3;
    let kind_text = match kind {
        0 => "Over Temperature Threshold",
        1 => "Under Temperature Threshold",
        _ => "Reserved",
    };
    writeln!(out, "\tThreshold Type Select         (THSEL): {kind} - {kind_text}")?;
    let sensor = value >> 16 & 0xf;
    let sensor_text = match sensor {
        0 => "Composite Temperature".to_owned(),
        1..=8 => format!("Temperature Sensor {sensor}"),
        _ => "Reserved".to_owned(),
    };
    writeln!(out, "\tThreshold Temperature Select (TMPSEL): {sensor} - {sensor_text}")?;
    let kelvin = (value & 0xffff) as i32;
    let celsius = kelvin - 273;
    writeln!(out, "\tTemperature Threshold         (TMPTH): {celsius}°C ({kelvin} Kelvin)")
}

fn events(out: &mut impl Write, value: u32) -> Result<()> {
    let sent = |is: bool| if is { "Send async event" } else { "Do not send async event" };
    for (bit, name) in [
        (31, "Discovery Log Page Change Notices                         "),
        (14, "Endurance Group Event Aggregate Log Change Notices        "),
        (13, "LBA Status Information Notices                            "),
        (12, "Predictable Latency Event Aggregate Log Change Notices    "),
        (11, "Asymmetric Namespace Access Change Notices                "),
        (10, "Telemetry Log Notices                                     "),
        (9, "Firmware Activation Notices                               "),
        (8, "Namespace Attribute Notices                               "),
    ] {
        writeln!(out, "\t{name}: {}", sent(value >> bit & 1 != 0))?;
    }
    let health = sent(value & 0xff != 0);
    writeln!(out, "\tSMART / Health Critical Warnings                          : {health}")
}

fn write_protection(value: u32) -> &'static str {
    match value & 7 {
        0 => "No Write Protect",
        1 => "Write Protect",
        2 => "Write Protect Until Power Cycle",
        3 => "Permanent Write Protect",
        _ => "Reserved",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(id: FeatureId, value: u32, data: &[u8]) -> String {
        let mut out = Vec::new();
        explain(&mut out, id, value, data).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_explained_as_nvme_cli_does() {
        for (id, value, text) in [
            (
                FeatureId::NUMBER_OF_QUEUES,
                0x007f_0003,
                "\tNumber of IO Completion Queues Allocated (NCQA): 128\n\tNumber of IO Submission Queues Allocated (NSQA): 4\n",
            ),
            (
                FeatureId::TEMPERATURE_THRESHOLD,
                0x0011_0157,
                "\tThreshold Type Select         (THSEL): 1 - Under Temperature Threshold\n\tThreshold Temperature Select (TMPSEL): 1 - Temperature Sensor 1\n\tTemperature Threshold         (TMPTH): 70°C (343 Kelvin)\n",
            ),
            (
                FeatureId::KEEP_ALIVE_TIMER,
                5000,
                "\tKeep Alive Timeout (KATO) in milliseconds: 5000\n",
            ),
            (FeatureId::VOLATILE_WRITE_CACHE, 1, "\tVolatile Write Cache Enable (WCE): Enabled\n"),
            (FeatureId(0xc0), 1, ""),
        ] {
            assert_eq!(explained(id, value, &[]), text);
        }
        let events = explained(FeatureId::ASYNC_EVENT_CONFIGURATION, 0x900, &[]);
        assert!(
            events.contains(
                "Asymmetric Namespace Access Change Notices                : Send async event\n"
            ),
            "{events}"
        );
        assert!(explained(FeatureId::ARBITRATION, 7, &[]).ends_with("(AB): No limit\n"));
        let id = explained(FeatureId::HOST_IDENTIFIER, 0, &[1, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(id, "\tHost Identifier (HOSTID):  257\n");
        assert_eq!(explained(FeatureId::HOST_IDENTIFIER, 0, &[1]), "");
    }
}
