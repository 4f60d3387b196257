/** Where else somebody is told: by the system of this browser, by mail, and by webhooks to programs. */
import './delivery.css';
import { Page } from '../../../parts/page.tsx';
import { t } from '../../../text/text.ts';
import { DesktopPanel } from './desktop.tsx';
import { MailPanel } from './mail.tsx';
import { Webhooks } from './webhooks.tsx';

export function Delivery() {
  return (
    <Page title={t.delivery.title} lead={t.delivery.lead} up={[t.shell.activity, '/activity']} narrow>
      <div class="stack">
        <DesktopPanel />
        <MailPanel />
        <Webhooks />
      </div>
    </Page>
  );
}
