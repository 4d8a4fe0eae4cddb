//! CPU time and memory of this process, from /proc.

use std::fs::read_to_string;

const TICKS: f64 = 100.0;
const PAGE: u64 = 4096;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    fn malloc_trim(pad: usize) -> i32;
}

/// Seconds that this process, which has one thread, was on a processor.
pub fn cpu_seconds() -> f64 {
    let exact = read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = exact.split_whitespace().next().and_then(|field| field.parse::<f64>().ok());
    nanos.map_or_else(ticked_seconds, |nanos| nanos / 1e9)
}

/// The same to a hundredth of a second, where the kernel keeps no better count.
fn ticked_seconds() -> f64 {
    let text = read_to_string("/proc/self/stat").expect("a Linux system");
    let after = text.rsplit(')').next().unwrap_or("");
    let ticks = |place: usize| -> f64 {
        after.split_whitespace().nth(place).and_then(|field| field.parse().ok()).unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / TICKS
}

/// Bytes resident, with free heap given back.
pub fn resident() -> u64 {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes a number and touches only the allocator's own free pages.
    unsafe {
        malloc_trim(0);
    }
    let text = read_to_string("/proc/self/statm").expect("a Linux system");
    text.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0) * PAGE
}
