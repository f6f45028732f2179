//! Dates of the Gregorian calendar.

/// Year, month and day of a day since 1970. Counts from 1 March of the year 0, so that leap days come
/// last in their year.
pub fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_0_TO_1970: u64 = 719_468;
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + DAYS_0_TO_1970;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leap_days_are_where_the_calendar_has_them() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(
            (civil(11_015), civil(11_016), civil(11_017)),
            ((2000, 2, 28), (2000, 2, 29), (2000, 3, 1))
        );
        assert_eq!((civil(47_540), civil(47_541)), ((2100, 2, 28), (2100, 3, 1)));
        assert_eq!(civil(2_932_896), (9999, 12, 31));
    }
}
