//! In which order the lanes take turns.

use crate::random::Pcg;

/// Returns the order of the lanes in a round of a block. It is random; each odd round is the
/// previous round backwards, so that over both every lane lies in the middle of the same time and a
/// drift of the machine meets all alike.
pub fn turns(lanes: usize, seed: u64, block: u32, round: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lanes).collect();
    shuffle(&mut order, seed, (u64::from(block) << 32) | u64::from(round / 2));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Puts items into an order that a seed and a name choose.
fn shuffle<T>(items: &mut [T], seed: u64, name: u64) {
    let mut random = Pcg::new(seed ^ name.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for last in (1..items.len()).rev() {
        items.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::turns;

    #[test]
    fn every_lane_has_its_turn_in_each_round_and_the_same_mean_place() {
        let mut orders = std::collections::BTreeSet::new();
        for (block, round) in (0..20).flat_map(|block| (0..4).map(move |pair| (block, 2 * pair))) {
            let (there, mut back) = (turns(4, 7, block, round), turns(4, 7, block, round + 1));
            back.reverse();
            assert_eq!(there, back);
            let mut sorted = there.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
            orders.insert(there);
        }
        assert!(orders.len() > 15, "{} of 24 orders", orders.len());
        assert_ne!(
            (0..9).map(|n| turns(4, 1, n, 0)).collect::<Vec<_>>(),
            (0..9).map(|n| turns(4, 2, n, 0)).collect::<Vec<_>>()
        );
    }
}
