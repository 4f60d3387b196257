/** All words of the console, in the language that is shown. Another language is another folder beside `en`. */
import { EN } from './en/index.ts';

export const t = EN;
