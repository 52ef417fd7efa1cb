// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was measured, in perftest's columns.
use super::{conversation::Report, Verb};
use crate::output::line;
use std::time::{Duration, Instant};

/// With more messages than this no peak is looked for: each is compared with each.
const PEAK: usize = 20_000;

/// Seconds of a message in the fastest stretch, from the moments at which messages were posted and completed.
pub fn fastest(posted: &[Instant], completed: &[Instant]) -> Option<f64> {
    if posted.len() > PEAK {
        return None;
    }
    let stretches = posted.iter().enumerate().flat_map(|(i, &from)| {
        completed.iter().enumerate().skip(i).map(move |(j, &to)| to.duration_since(from).as_secs_f64() / (j - i + 1) as f64)
    });
    stretches.min_by(f64::total_cmp)
}

/// Bandwidth of so many messages.
pub fn bandwidth(size: u32, iters: u32, took: Duration, fastest: Option<f64>) -> Report {
    let mib = f64::from(size) / f64::from(1 << 20);
    // a clock may stand still for as long as this
    let tick = 1e-9;
    let messages = f64::from(iters) / took.as_secs_f64().max(tick);
    Report {
        size: u64::from(size),
        iters: u64::from(iters),
        peak: fastest.map_or(0.0, |each| mib / each.max(tick)),
        average: mib * messages,
        rate: messages / 1e6,
    }
}

/// Shows it.
pub fn show_bandwidth(report: &Report, json: bool) {
    let Report { size, iters, peak, average, rate } = report;
    if json {
        line(
            serde_json::json!({ "bytes": size, "iterations": iters, "bw_peak_mib_s": peak, "bw_average_mib_s": average,
                "msg_rate_mpps": rate })
            .to_string(),
        );
    } else {
        line(" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]");
        line(format!(" {size:<10} {iters:<14} {peak:<18.2} {average:<20.2} {rate:.6}"));
    }
}

/// Shows latency: `each` is a round. Half of one for Send and Write, the whole of a Read.
pub fn show_latency(verb: Verb, size: u32, iters: u32, mut each: Vec<Duration>, json: bool) {
    let share = if verb == Verb::Read { 1.0 } else { 2.0 };
    each.sort_unstable();
    let us: Vec<f64> = each.iter().map(|d| d.as_secs_f64() * 1e6 / share).collect();
    let at = |part: f64| us[((us.len() - 1) as f64 * part) as usize];
    let (min, max, typical, p99, p999) = (at(0.0), at(1.0), at(0.5), at(0.99), at(0.999));
    let average = us.iter().sum::<f64>() / us.len() as f64;
    let stdev = (us.iter().map(|t| (t - average).powi(2)).sum::<f64>() / us.len() as f64).sqrt();
    if json {
        line(
            serde_json::json!({ "bytes": size, "iterations": iters, "t_min_us": min, "t_max_us": max, "t_typical_us": typical,
                "t_avg_us": average, "t_stdev_us": stdev, "p99_us": p99, "p999_us": p999 })
            .to_string(),
        );
    } else {
        line(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]");
        line(format!(" {size:<6} {iters:<14} {min:<14.2} {max:<12.2} {typical:<16.2} {average:<14.2} {stdev:<15.2} {p99:<22.2} {p999:.2}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_fastest_stretch_and_the_average_is_all() {
        let start = Instant::now();
        let at = |ms: &[u64]| ms.iter().map(|ms| start + Duration::from_millis(*ms)).collect::<Vec<_>>();
        // the second and third take 100 ms each, the first and the fourth more
        let each = fastest(&at(&[0, 500, 600, 700]), &at(&[500, 600, 700, 1000]));
        let report = bandwidth(1 << 20, 4, Duration::from_secs(1), each);
        assert_eq!((report.size, report.iters), (1 << 20, 4));
        assert!(
            (report.average - 4.0).abs() < 1e-6 && (report.peak - 10.0).abs() < 1e-6 && (report.rate - 4e-6).abs() < 1e-12,
            "{report:?}"
        );
        assert_eq!(bandwidth(1, 1, Duration::from_secs(1), None).peak, 0.0);
    }
}
