/** Units, so that a time or a count reads as a sentence: `10 * minutes`. */

export const millisecond: number = 1;
export const milliseconds: number = millisecond;
export const second: number = 1000 * milliseconds;
export const seconds: number = second;
export const minute: number = 60 * seconds;
export const minutes: number = minute;
export const hour: number = 60 * minutes;
export const hours: number = hour;
export const message: number = 1;
export const messages: number = message;
