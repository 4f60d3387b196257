/** The console begins here. */
import './styles/index.css';
import { render } from 'preact';
import { App } from './app.tsx';
import { startClock } from './core/clock.ts';
import { startKeys } from './core/keys.ts';
import { startOnline } from './core/online.ts';
import { startRouter } from './core/router.ts';
import { startSession } from './core/session.ts';
import { startTheme } from './core/theme.ts';
import { startFacts } from './live/facts.ts';
import { startLive } from './live/live.ts';
import { startNotices } from './live/notices.ts';

startTheme();
startClock();
startRouter();
startOnline();
startKeys();
startSession();
startLive();
startFacts();
startNotices();

const root = document.getElementById('app');
if (root !== null) render(<App />, root);
